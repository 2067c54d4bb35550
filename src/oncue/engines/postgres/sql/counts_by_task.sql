-- By class first, then one probe for each: joined in any other way the planner may compare every count with every class.
select k.task, c.what, sum(c.n)::bigint as n
from (
  select class_id, what, sum(n) as n
  from (select class_id, what, n from totals union all select class_id, what, n from tally) a group by 1, 2) c
cross join lateral (select task from classes where class_id = c.class_id limit 1) k
group by 1, 2
