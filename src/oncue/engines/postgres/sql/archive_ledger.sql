select l.*, j.uid from (
  select * from {piece} where (job_id, last_at, entry_id) > ($1::uuid, $2::bigint, $3::bigint) order by job_id, last_at, entry_id limit $4) l
left join jobs j on j.job_id = l.job_id order by l.job_id, l.last_at, l.entry_id
