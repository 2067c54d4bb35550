-- $3: only refused ones, or only others; null: all.
select seq, job_id, uid, role, db_role, task, payload, options, key_hash, body_hash, require_task, at, since, retry_at, why,
  coalesce((select user_id from users u where u.uid = o.uid), '') as user_id
from outbox o where seq > $1 and ($3::boolean is null or (retry_at >= 4611686018427387904) = $3) order by seq limit $2
