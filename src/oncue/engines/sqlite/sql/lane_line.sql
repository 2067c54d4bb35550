-- The first runs in line for each lane, without paused ones.
select l.value, r.run_id, r.wanted, r.gate from carray(?1) l cross join runs r
where r.run_id in (select run_id from runs where lane = l.value and held & 5 = 1 order by wanted, run_id limit ?2)  -- held: 1 lane, 4 paused
