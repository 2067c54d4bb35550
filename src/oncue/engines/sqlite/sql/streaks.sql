select job_id, since, runs from streaks where job_id in carray(?1)
