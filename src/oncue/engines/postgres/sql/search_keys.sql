select p.key, p.job_id
from unnest(array(select $1::int where $1 is not null union all (select uid from users where $1 is null order by uid desc limit $5))) u(uid)
cross join lateral (
  select key, job_id from job_keys where uid = any(array[u.uid]) and key >= $2::text and key < $3::text
  order by uid, key limit (select $4::int)) p
order by p.key, p.job_id limit (select $4::int)
