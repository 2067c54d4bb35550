-- Walks as in list_live. By both ends of what waits: the runs created last, and those that are due first. Whole bytes are compared
-- first: that takes half as long.
select distinct id from unnest(array[$4::int]) u(uid) cross join lateral (
  (select job_id as id from jobs where uid = any(array[u.uid]) and status = 0 order by uid desc, job_id desc limit (select $2::int))  -- status: 0 active
  union all (select job_id from jobs where uid = any(array[u.uid]) and status = 1 order by uid desc, job_id desc limit (select $2::int))  -- status: 1 paused
  union all (select job_id from jobs where uid = any(array[u.uid]) and status = 2 order by uid desc, job_id desc limit (select $2::int))  -- status: 2 finished
  union all (select job_id from jobs where uid = any(array[u.uid]) and status = 3 order by uid desc, job_id desc limit (select $2::int))  -- status: 3 cancelled
  union all (select run_id from waiting where uid = any(array[u.uid]) and run_id = job_id order by uid desc, run_id desc limit (select $2::int))
  union all (select run_id from waiting where uid = any(array[u.uid]) order by uid, wanted, run_id limit (select $2::int))
  union all (select run_id from running where uid = u.uid order by run_id desc limit (select $2::int))
  union all (select run_id from dead where uid = any(array[u.uid]) order by uid desc, ended_at desc, run_id desc limit (select $2::int))
  union all (select run_id from history where uid = u.uid order by ended_at desc, run_id desc limit (select $2::int))) a
where substr(uuid_send(id), $5::int) = $6::bytea and right(encode(uuid_send(id), 'hex'), length($1::text)) = $1 order by id desc limit $3
