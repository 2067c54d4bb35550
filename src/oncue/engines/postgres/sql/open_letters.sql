select uid, sum(case what when 'dead' then n else -n end)::bigint as n from counters
where what in ('dead', 'requeued', 'discarded') and uid <> 0 group by uid having sum(case what when 'dead' then n else -n end) >= $1::bigint
