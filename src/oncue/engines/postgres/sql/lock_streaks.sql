select job_id, since, runs from streaks where job_id = any($1::uuid[]) order by job_id for update
