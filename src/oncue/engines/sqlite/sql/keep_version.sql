insert into job_versions (job_id, version, until, spec, payload) select job_id, version, ?1, spec, payload from jobs where job_id = ?2
on conflict do nothing
