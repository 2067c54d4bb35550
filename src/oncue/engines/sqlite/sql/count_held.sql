select count(*) from carray(?1) asked cross join running x on x.run_id = asked.value
where x.token = ?2 and x.worker_id = ?3 and x.cancel_at is null
