-- Walks as in list_live.
select p.* from unnest($1::int[]) u(uid) cross join lateral (
  select * from waiting_runs where (uid, wanted, run_id) > (u.uid, $3::bigint, $4::uuid) and uid <= u.uid
  order by uid, wanted, run_id limit $5) p
where wanted < $2::bigint
order by wanted, run_id limit $5
