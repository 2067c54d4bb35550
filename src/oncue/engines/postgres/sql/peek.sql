select r.run_id, r.due, c.class_id, r.uid
from unnest($1::int[]) c(class_id) cross join lateral (
  select w.run_id, w.due, w.uid from waiting w
  where w.class_id = c.class_id and w.held = 0 and w.due > $2 and w.due <= $3  -- held: 0 no
  order by w.due, w.run_id limit $4) r
order by r.due, r.run_id
