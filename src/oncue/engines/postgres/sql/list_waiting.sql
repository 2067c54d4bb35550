select p.* from unnest($1::int[]) u(uid) cross join lateral (
  select * from waiting_runs where uid = u.uid and wanted >= $2 and wanted < $3 and (wanted, run_id) > ($4::bigint, $5::uuid)
  order by wanted, run_id limit $6) p
order by wanted, run_id limit $6
