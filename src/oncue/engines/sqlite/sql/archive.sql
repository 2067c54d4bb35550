-- name: archive_history
select run_id, job_id, uid, class_id, state, wanted, wanted, nominal, trigger, token, failures, losses, job_version, 0, started_at, ended_at, null,
  worker_id, error_type, error, result, attempts, payload, spec, null, parent
from {piece} where (uid, ended_at, run_id) > (?1, ?2, ?3) order by uid, ended_at, run_id limit ?4

-- name: mark_archived
insert into archived (table_name, until_at, last_id) values (?1, ?2, ?3)
on conflict do update set until_at = excluded.until_at, last_id = excluded.last_id

-- name: archive_audit
select at, deed_id, uid, key_id, action, object_id, detail, address from audit
where (at, deed_id) > (?1, ?2) and at < ?3 order by at, deed_id limit ?4

-- name: archive_ledger
-- Up to the end of the piece, from its start or from where the page before ended.
select l.job_id, l.first_at, l.last_at, l.n, l.outcome, l.reason, l.run_id, l.at, l.entry_id, j.uid
from ledger l left join jobs j on j.job_id = l.job_id
where (l.at, l.entry_id) > (?1, ?2) and l.at < ?3 order by l.at, l.entry_id limit ?4
