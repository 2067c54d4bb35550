select c.class_id, w.due - w.due % $4::bigint, count(*), max(w.due)
from unnest($1::int[]) c(class_id) cross join lateral (
  select due from waiting where class_id = c.class_id and held = 0 and due >= $2 and due < $3  -- held: 0 no
  order by class_id, due, run_id limit (select $5::int)) w
group by 1, 2
