-- In the order of ids, because no index has everybody's in the order of `wanted`: it would cost every run that is created.
select * from waiting_runs where run_id > $1::uuid order by run_id limit $2
