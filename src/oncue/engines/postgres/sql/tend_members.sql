-- The admitted that still wait: a claim in flight finishes first, a later one skips them until we are done.
select from unnest($1::bigint[]) l(lane) cross join lateral (
  select from waiting where {lane} = l.lane and held & {bit} = 0 order by run_id for update) admitted
