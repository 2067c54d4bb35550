insert or fail into running (run_id, token, worker_id, claimed_at) select value, ?2, ?3, ?4 from carray(?1)
