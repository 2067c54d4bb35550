insert into job_versions (job_id, version, spec, payload, until)
select job_id, version, spec, payload, $2 from jobs where job_id = $1 on conflict do nothing
