select uid, class_id, what, sum(n)::bigint as n from (select uid, class_id, what, n from counters union all select uid, class_id, what, n from tally) c
where uid = $1 group by 1, 2, 3 order by 1, 2, 3
