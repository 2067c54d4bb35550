-- The definition of a run: its own if it carries one, else its job's at the version it was planned under.
select spec, payload from waiting where run_id = $1 and spec is not null
union all select spec, payload from running where run_id = $1 and spec is not null
union all select spec, payload from history where run_id = $1 and spec is not null
union all select spec, payload from jobs where job_id = $2 and version = $3
union all select spec, payload from job_versions where job_id = $2 and version = $3
limit 1
