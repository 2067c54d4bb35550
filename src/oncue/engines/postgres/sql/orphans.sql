-- By anti-join, so that it also finds the runs that a caller which died half-way left.
select run_id, job_id from running r where not exists (select from workers w where w.worker_id = r.worker_id)
order by run_id limit $1
