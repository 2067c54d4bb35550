-- In line for a gate are runs that their lane has admitted and that are not paused.
select l.value, r.run_id, r.wanted, r.gate from carray(?1) l cross join runs r
where r.run_id in (select run_id from runs where gate = l.value and held & 7 = 2 order by wanted, run_id limit ?2)  -- held: 1 lane, 2 gate, 4 paused
