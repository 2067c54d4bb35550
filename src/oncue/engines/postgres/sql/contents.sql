-- Jobs, runs and keys: how many there are, and the sum of hashes of each with its state, which needs no order.
select kind, count(*), sum(('x' || left(md5(concat_ws(' ', kind, id, state, token)), 15))::bit(60)::bigint)::text
from (
  select 'jobs' as kind, job_id as id, status::text as state, version as token from jobs
  union all select 'runs', run_id, 'waiting', token from waiting
  union all select 'runs', run_id, 'running', token from running
  union all select 'runs', run_id, state::text, token from history
  union all select 'keys', key_id, role, (revoked_at is not null)::int from keys
) as found
group by kind
