insert into streaks (job_id, since, runs) select * from unnest($1::uuid[], $2::bigint[], $3::int[])
on conflict (job_id) do update set since = excluded.since, runs = excluded.runs
