select run_id from running where worker_id = ? and cancel_at is not null order by run_id
