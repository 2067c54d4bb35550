-- name: sqlite_finished
-- One-shots of one user and class that have succeeded within the last ten seconds or so, a microsecond apart.
insert into {piece} (run_id, job_id, uid, class_id, state, wanted, nominal, trigger, job_version, token, failures, losses,
  started_at, ended_at, spec, payload)
with recursive n(i) as (select ?1 union all select i + 1 from n where i < ?2), made as materialized
  (select unhex(printf('%012x7%03x8%015x', ?3 / 1000 - 9000000 + i / 1000, i % 4096, abs(random()) % (1 << 60))) as id,
  ?3 - 10000000 + i as at from n)
select id, id, ?4, ?5, 2, at, at, 0, 1, 1, 0,
  0, at, at, cast('{{"task":"note","schedule":{{"at":1794777050567281}}}}' as blob), x'7b7d' from made

-- name: sqlite_future
-- One-shots of one user and class that are due from tomorrow on, a millisecond apart.
insert into runs (run_id, job_id, uid, class_id, due, wanted, nominal, trigger, job_version, token, failures, losses,
  held, spec, payload)
with recursive n(i) as (select ?1 union all select i + 1 from n where i < ?2), made as materialized
  (select unhex(printf('%012x7%03x8%015x', ?3 / 1000 + i / 1000, i % 4096, abs(random()) % (1 << 60))) as id,
  ?3 + 86400000000 + i * 1000 as at from n)
select id, id, ?4, ?5, at, at, at, 0, 1, 0, 0,
  0, 0, cast('{{"task":"note","schedule":{{"at":1794777050567281}}}}' as blob), x'7b7d' from made
