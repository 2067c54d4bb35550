-- Keys that have not been accepted since then.
with gone as (
  delete from keys where key_id = any(array(select key_id from keys where revoked_at < $1 or expires_at < $1 limit $2)) returning 1)
select count(*) from gone
