select meter from meters where meter = any($1::bigint[]) order by meter for update skip locked
