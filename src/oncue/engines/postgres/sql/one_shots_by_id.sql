select * from one_shots where job_id = any($1::uuid[])
