-- One-shots of one user and class that are due from tomorrow on, a millisecond apart.
insert into waiting (run_id, job_id, uid, class_id, due, wanted, nominal, trigger, job_version, spec, payload)
select id, id, $4::int, $5::int, at, at, at, 0, 1,
  '{"task":"note","schedule":{"at":1794777050567281}}', '{}'
from (select (lpad(to_hex($3::bigint / 1000 + i / 1000), 12, '0')
    || '7' || substr(md5(i::text), 1, 3) || '8' || substr(md5(i::text), 4, 15))::uuid as id,
  $3::bigint + 86400000000 + i * 1000 as at from generate_series($1::bigint, $2::bigint) i) made
