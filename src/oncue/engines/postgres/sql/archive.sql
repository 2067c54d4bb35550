-- name: next_piece
-- The oldest piece, also one that is half dropped, that ended before its table's instant and is not archived.
select p.parent, p.name, p.from_at, p.until_at from pieces p join unnest($1::text[], $2::bigint[]) t(parent, before) using (parent)
where p.until_at <= t.before and p.archived_rows is null order by p.until_at, p.parent limit 1

-- name: archive_history
select run_id, job_id, uid, class_id, state, wanted as due, wanted, nominal, trigger, token, failures, losses, job_version,
  0::smallint as held, started_at, ended_at, null::bigint as cancel_at, worker_id, error_type, error, result, attempts, payload, spec,  -- held: 0 no
  null::bytea as progress, parent
from {piece} where (uid, ended_at, run_id) > ($1::int, $2::bigint, $3::uuid) order by uid, ended_at, run_id limit $4

-- name: archive_ledger
select l.*, j.uid from (
  select * from {piece} where (job_id, last_at, entry_id) > ($1::uuid, $2::bigint, $3::bigint) order by job_id, last_at, entry_id limit $4) l
left join jobs j on j.job_id = l.job_id order by l.job_id, l.last_at, l.entry_id

-- name: archive_audit
select * from {piece} where (at, deed_id) > ($1::bigint, $2::bigint) order by at, deed_id limit $3
