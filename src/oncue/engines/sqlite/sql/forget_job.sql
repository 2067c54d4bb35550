-- If the job has no waiting or running run and no dead letter.
delete from jobs where job_id = ?1 and status >= 2 and not exists (select 1 from runs where job_id = ?1 and job_id <> run_id)  -- status: 2 finished
  and not exists (select 1 from dead d where d.uid = jobs.uid and d.job_id = ?1)
