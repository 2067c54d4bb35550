-- Who holds a lane or gate, those that go on first, and how many are before a member that it holds: those inside, and those in
-- line by (wanted, run_id). Paused ones stand aside. Of the line 10,000 are looked at.
select
  (select h.run_id from (
    (select run_id, 0 as part, 0::bigint as wanted from running where {lane} = $1 order by claimed_at, run_id limit 1)
    union all
    (select run_id, case when failures + losses > 0 then 1 else 2 end, wanted from waiting
     where {lane} = $1 and held & {bit} = 0 and run_id <> $3)) h
   order by h.part, h.wanted, h.run_id limit 1) as holder,
  least(10000,
    (select count(*) from running where {lane} = $1)
    + (select count(*) from waiting where {lane} = $1 and held & {bit} = 0 and run_id <> $3)
    + (select count(*) from (
        select held from waiting where {lane} = $1 and (wanted, run_id) < ($2::bigint, $3::uuid) order by wanted, run_id limit 10000) l
       where l.held & {bit} <> 0 and l.held & {blocked} = 0))::int as place
