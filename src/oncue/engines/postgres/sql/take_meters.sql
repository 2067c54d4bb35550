select meter, starts, per from meters where next_at <= $1 order by next_at, meter limit $2 for update skip locked
