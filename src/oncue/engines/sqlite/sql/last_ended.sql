-- Of the attempts only the beginning, which has the first start.
select run_id, state, wanted, nominal, started_at, ended_at, substr(attempts, 1, 120) from {piece}
where {which} and job_id = ?1 order by ended_at desc, run_id desc limit ?2
