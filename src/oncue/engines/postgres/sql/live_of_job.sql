-- One statement, which sees every run in one place: with two, a run that is claimed or returned to the queue in between would
-- be in neither. Running runs without a cancel request come first.
(select run_id, true as running, cancel_at, null::bigint as lane, null::bigint as gate from running where run_id = $1)
union all
(select run_id, true, cancel_at, null, null from running where job_id = $1 and job_id <> run_id order by cancel_at nulls first limit $2)
union all
(select run_id, false, null, lane, gate from waiting where run_id = $1)
union all
(select run_id, false, null, lane, gate from waiting where job_id = $1 and job_id <> run_id order by wanted limit $2)
