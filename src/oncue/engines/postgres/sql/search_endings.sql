-- Everybody's, in the order of ids: that is the order of creation. Whole bytes are compared first: that takes half as long.
select distinct id from (
  (select job_id as id from jobs order by job_id desc limit (select $2::int))
  union all (select run_id from waiting order by run_id desc limit (select $2::int))
  union all (select run_id from waiting order by run_id limit (select $2::int))
  union all (select run_id from running order by run_id desc limit (select $2::int))
  union all (select run_id from dead order by run_id desc limit (select $2::int))
  union all (select run_id from history order by run_id desc limit (select $2::int))) a
where substr(uuid_send(id), $4::int) = $5::bytea and right(encode(uuid_send(id), 'hex'), length($1::text)) = $1 order by id desc limit $3
