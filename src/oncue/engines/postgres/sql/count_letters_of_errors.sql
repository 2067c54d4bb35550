select i.uid, i.fingerprint, found.n from unnest($1::int[], $2::bigint[]) i (uid, fingerprint) cross join lateral (
  select count(*) as n from (select from dead d where d.uid = i.uid and d.fingerprint = i.fingerprint limit $3) letters) found
where found.n > 0
