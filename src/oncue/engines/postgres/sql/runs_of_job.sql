-- All running runs and the first $2 waiting ones.
select run_id, wanted, nominal, origin, held, token, failures + losses as tries, false as running from waiting where run_id = $1
union all
(select run_id, wanted, nominal, origin, held, token, failures + losses, false from waiting where job_id = $1 and job_id <> run_id
 order by wanted limit $2)
union all
select run_id, wanted, nominal, origin, 0, token, 0, true from running where run_id = $1
union all
select run_id, wanted, nominal, origin, 0, token, 0, true from running where job_id = $1 and job_id <> run_id
order by wanted, run_id
