select job_id, next_at from unnest($1::int[]) u(uid) cross join lateral (
  (select job_id, next_at from agenda where uid = u.uid and next_at >= $2 and next_at < $3 and (next_at, job_id) > ($4::bigint, $5::uuid)
   order by next_at, job_id limit $6)
  union all
  (select run_id, wanted from waiting where uid = u.uid and wanted >= $2 and wanted < $3 and (wanted, run_id) > ($4::bigint, $5::uuid)
     and run_id = job_id and spec is not null
   order by wanted, run_id limit $6)) p
order by next_at, job_id limit $6
