-- Entries of other users count as read.
select :class_id, due - due % :step, count(*), max(due), uid
from (
  select due, uid from runs indexed by runs_due where class_id = :class_id and held = 0 and due >= :since and due < :until  -- held: 0 no
  order by due, run_id limit :most)
group by 2, 5
