-- In the order of the instants they were wanted at. The user is a set with one element: see list_live.
select class_id, count(*) filter (where held = 0 and due <= $2) as n, min(due) filter (where held = 0 and due <= $2) as oldest, count(*) as looked  -- held: 0 no
from unnest(array[$1::int]) u(uid) cross join lateral (
  select class_id, held, due from waiting where uid = any(array[u.uid]) and wanted <= $2
  order by uid, wanted, run_id limit $3) w
group by 1
