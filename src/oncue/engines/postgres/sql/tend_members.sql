-- The admitted that still wait: a claim in flight finishes first, a later one skips them until we are done.
select from waiting where {lane} = any($1::bigint[]) and held & {bit} = 0 order by run_id for update
