-- Finds a run's table by its key alone: the newest state last, so that a run that is being moved is found where it went.
select 0 as state, uid, lane, gate from waiting where run_id = $1  -- state: 0 waiting
union all select 1, uid, lane, gate from running where run_id = $1  -- state: 1 running
union all select state, uid, null, null from dead where run_id = $1
union all (select state, uid, null, null from history where run_id = $1 limit 1)
