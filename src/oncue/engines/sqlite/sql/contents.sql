-- Jobs, runs and keys, with what tells one from another, and its state.
select 'jobs', job_id, version, status from jobs
union all select 'runs', run_id, token, 'open' from runs
union all select 'running', run_id, token, worker_id from running
union all select 'keys', key_id, role, revoked_at from keys
