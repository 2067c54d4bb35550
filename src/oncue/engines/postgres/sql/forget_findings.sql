delete from findings where (check_name, object_id) in (
  select check_name, object_id from findings order by cleared_at is not null, seen_at desc, check_name, object_id offset $1)
