insert into tally (uid, class_id, what, n, at)
select *, $5::bigint from unnest($1::int[], $2::int[], $3::text[], $4::bigint[])
