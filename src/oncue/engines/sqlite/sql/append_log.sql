insert into run_logs (run_id, number, text, at)
select ?1, ?2, coalesce(substr(?3, 1, max(0, ?5 - coalesce((select sum(length(text)) from run_logs where run_id = ?1), 0))), x''), ?4 where true
on conflict do nothing
