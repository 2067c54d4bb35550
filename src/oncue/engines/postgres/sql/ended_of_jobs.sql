-- The run of each job that ended last, not before $2: that leaves out the partitions of the time before the job was created.
-- $3: whether the run that is the job itself may be among them; a recurring job is none.
select i.job_id as near, l.* from unnest($1::uuid[], $2::bigint[], $3::bool[]) i(job_id, since, own) cross join lateral (
  select * from (
    (select * from ended_runs where run_id = i.job_id and ended_at >= i.since and i.own
      and not exists (select from jobs where job_id = i.job_id) limit 1)
    union all (select * from ended_runs where job_id = i.job_id and job_id <> run_id and ended_at >= i.since
      order by ended_at desc, run_id desc limit 1)) p
  where job_id = i.job_id
  order by ended_at desc, run_id desc limit 1) l
