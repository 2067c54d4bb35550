select * from one_shots where job_id = $1
union all
select run_id, uid, class_id, job_version, name, spec, payload, null, ended_at, state, 0, null, true from dead
where run_id = $1 and job_id = $1 and spec is not null
limit 1
