select meter, starts, per, check_at, given from meters where next_at <= $1 or check_at <= $3 order by next_at, meter limit $2
for update skip locked
