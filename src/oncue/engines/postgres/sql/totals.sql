select 0 as uid, class_id, what, sum(n)::bigint as n
from (select class_id, what, n from totals union all select class_id, what, n from tally) c group by 1, 2, 3 order by 1, 2, 3
