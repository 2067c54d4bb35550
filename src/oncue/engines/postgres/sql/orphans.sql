-- By anti-join, so that it also finds what a reaper that died half-way left behind.
select run_id, job_id from running r where not exists (select from workers w where w.worker_id = r.worker_id)
order by run_id limit $1
