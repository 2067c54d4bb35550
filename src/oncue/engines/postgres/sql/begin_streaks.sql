-- A row with -1 is this transaction's own: it becomes a streak before the end.
insert into streaks (job_id, since, runs) select j, 0, -1 from unnest($1::uuid[]) j order by j on conflict do nothing
