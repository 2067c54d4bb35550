-- Its own run first, if it is a one-shot. Those retried are found by their user, as in retried_since: few are at any moment.
(select * from running_runs where run_id = $2 limit 1)
union all
(select * from running_runs where job_id = $2 and job_id <> run_id limit $4)
union all
(select * from ended_runs where run_id = $2 and ended_at >= $3 limit 1)
union all
(select * from ended_runs where job_id = $2 and job_id <> run_id and ended_at >= $3 order by ended_at desc, run_id desc limit $4)
union all
(select v.* from (
    select run_id from waiting
    where (uid, tried_at) >= ($1, $3::bigint) and uid <= $1 and tried_at is not null and failures + losses > 0 and job_id = $2
    order by uid desc, tried_at desc limit $4) t
  cross join lateral (select * from waiting_runs where run_id = t.run_id limit 1) v)
