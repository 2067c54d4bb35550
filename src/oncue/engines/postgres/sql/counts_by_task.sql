select k.task, c.what, sum(c.n)::bigint as n
from (select class_id, what, n from totals union all select class_id, what, n from tally) c join classes k using (class_id)
group by 1, 2
