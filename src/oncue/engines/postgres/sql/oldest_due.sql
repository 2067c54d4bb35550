select c.class_id, w.due from unnest($1::int[]) c(class_id) cross join lateral (
  select due from waiting where class_id = c.class_id and held = 0 and due <= $2 order by due limit 1) w  -- held: 0 no
