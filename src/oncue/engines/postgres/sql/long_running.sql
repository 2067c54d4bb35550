-- In the order of their key, from where the last page ended: what runs is not walked as a whole.
select run_id, worker_id, claimed_at, cancel_at, job_id, job_version, spec from running r
where run_id > $1 and claimed_at < $2 and exists (select from workers w where w.worker_id = r.worker_id) order by run_id limit $3
