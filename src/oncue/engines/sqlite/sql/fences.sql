select x.run_id, x.token, x.cancel_at from carray(?1) asked cross join running x on x.run_id = asked.value where x.worker_id = ?2
