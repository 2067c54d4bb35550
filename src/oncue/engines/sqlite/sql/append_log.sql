insert into run_logs (run_id, number, text, at)
select ?1, ?2, ?3, ?4 where substr(?3, 1, 1) = x'01'
  or length(?3) + (select coalesce(sum(length(text)), 0) from run_logs where run_id = ?1 and substr(text, 1, 1) <> x'01') <= ?5
returning number
