insert into agenda (job_id, uid, next_at, floor, planned) values ($1, $2, $3, $4, $5)
on conflict (job_id) do update set next_at = excluded.next_at, floor = greatest(agenda.floor, excluded.floor), planned = excluded.planned
