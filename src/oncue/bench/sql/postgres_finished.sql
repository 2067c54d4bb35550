-- One-shots of one user and class that have succeeded within the last ten seconds or so, a microsecond apart.
insert into history (run_id, job_id, uid, class_id, state, wanted, nominal, trigger, job_version, token, failures,
  losses, started_at, ended_at, worker_id, spec, payload)
select id, id, $4::int, $5::int, 2, at, at, 0, 1, 1, 0,
  0, at, at, $6::uuid, '{"task":"note","schedule":{"at":1794777050567281}}', '{}'
from (select (lpad(to_hex($3::bigint / 1000 - 9000000 + i / 1000), 12, '0')
    || '7' || substr(md5(i::text), 1, 3) || '8' || substr(md5(i::text), 4, 15))::uuid as id,
  $3::bigint - 10000000 + i as at from generate_series($1::bigint, $2::bigint) i) made
