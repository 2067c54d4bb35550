select * from live_one_shots where job_id = ?
