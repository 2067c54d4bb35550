insert into run_logs (run_id, number, text, at)
select $1, $2, substr($3::bytea, 1, greatest(0, $5::int - coalesce((select sum(length(text)) from run_logs where run_id = $1), 0))::int), $4
where not exists (select from run_logs where run_id = $1 and number = $2)
