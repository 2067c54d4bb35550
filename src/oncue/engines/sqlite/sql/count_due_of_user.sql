-- Of the first due runs of a class, whoever they belong to: the index has all that is read.
select count(*) filter (where mine), min(due) filter (where mine), count(*)
from (select due, uid = ?4 and not exists (select 1 from running x where x.run_id = r.run_id) as mine from (
    select run_id, due, uid from runs where class_id = ?1 and held = 0 and due <= ?2 order by due limit ?3) r)  -- held: 0 no
