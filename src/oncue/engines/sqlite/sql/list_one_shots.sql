select * from live_one_shots where {who}job_id < :last order by job_id desc
