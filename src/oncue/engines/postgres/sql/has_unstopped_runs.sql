-- By one statement, as in live_of_job.
select exists (select from waiting where run_id = $1) or exists (select from running where run_id = $1 and cancel_at is null)
  or exists (select from waiting where job_id = $1 and job_id <> run_id)
  or exists (select from running where job_id = $1 and job_id <> run_id and cancel_at is null)
