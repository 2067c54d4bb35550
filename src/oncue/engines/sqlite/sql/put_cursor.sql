-- The floor only rises.
insert into agenda (job_id, uid, next_at, floor, planned, rules) values (?, ?, ?, ?, ?, ?)
on conflict do update set next_at = excluded.next_at, floor = max(floor, excluded.floor), planned = excluded.planned, rules = excluded.rules
