select job_id, first_at, last_at, n, outcome, reason, run_id, entry_id from ledger
where job_id = ?1 and (last_at, entry_id) < (?2, ?3) order by last_at desc, entry_id desc limit ?4
