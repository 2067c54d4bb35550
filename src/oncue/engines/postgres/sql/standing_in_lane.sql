-- The runs that hold a lane or gate, active ones first, and how many in line are before this one. Paused runs do not count.
select
  (select h.run_id from (
    (select run_id, 0 as part, 0::bigint as wanted from running where {lane} = $1 order by claimed_at, run_id limit 1)
    union all
    (select run_id, case when failures + losses > 0 then 1 else 2 end, wanted from waiting
     where {lane} = $1 and held & {bit} = 0 and run_id <> $3)) h
   order by h.part, h.wanted, h.run_id limit 1) as holder,
  (select count(*) from (
    select from waiting where {lane} = $1 and held & {bit} = {bit} and held & {blocked} = 0 and (wanted, run_id) < ($2::bigint, $3::uuid)
    order by wanted, run_id limit 10000) l)::int as place
