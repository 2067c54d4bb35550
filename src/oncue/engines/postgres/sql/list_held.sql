-- With each run whether the walk stopped there: that row is returned also if it is of another worker or user.
select * from (
  select w.*, row_number() over (order by run_id) = (select $5::int) as stopped
  from (select * from running_runs where run_id > $3 order by run_id limit (select $5::int)) w) r
where stopped or (worker_id = $1 and ($2::int is null or uid = $2))
order by run_id limit $4
