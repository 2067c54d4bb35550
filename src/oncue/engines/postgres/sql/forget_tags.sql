delete from job_tags t where t.job_id < $1
  and not exists (select from jobs j where j.job_id = t.job_id)
  and not exists (select from one_shots o where o.job_id = t.job_id)
