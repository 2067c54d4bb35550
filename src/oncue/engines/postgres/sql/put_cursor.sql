insert into agenda (job_id, uid, next_at, floor, planned, rules) values ($1, $2, $3, $4, $5, $6)
on conflict (job_id) do update set next_at = excluded.next_at, floor = greatest(agenda.floor, excluded.floor),
  planned = excluded.planned, rules = excluded.rules
