select run_id, worker_id, claimed_at from running r
where claimed_at < ?1 and not exists (select 1 from workers w where w.worker_id = r.worker_id) order by run_id limit ?2
