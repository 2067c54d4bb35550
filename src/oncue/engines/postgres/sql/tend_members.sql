-- Admitted runs that still wait: a claim in flight finishes first, a later one skips them until we are done.
-- Found first, then locked: in the order of their key the planner might search by walking along it.
select from waiting where run_id = any(array(
  select run_id from waiting where {lane} = any($1::bigint[]) and held & {bit} = 0)) order by run_id for update
