insert into tally (uid, class_id, what, n, at, lag, took)
select uid, class_id, $3::text, n, $5::bigint, lag, took
from unnest($1::int[], $2::int[], $4::bigint[], $6::smallint[], $7::smallint[]) t (uid, class_id, n, lag, took)
