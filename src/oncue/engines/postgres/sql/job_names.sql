-- A run carries the definition of a one-shot; the further runs of one that has ended do not, and are found last.
select i.run_id, n.name, n.spec from unnest($1::uuid[], $2::uuid[], $3::bigint[]) i(run_id, job_id, ended_at) cross join lateral (
  select name, spec from jobs where job_id = i.job_id
  union all (select name, spec from waiting where run_id = i.job_id and spec is not null)
  union all (select name, spec from running where run_id = i.job_id and spec is not null)
  union all (select name, spec from history where run_id = i.run_id and ended_at = i.ended_at and spec is not null limit 1)
  union all (select name, spec from dead where run_id = i.run_id and spec is not null)
  union all (select name, spec from waiting where run_id = i.run_id and spec is not null)
  union all (select name, spec from running where run_id = i.run_id and spec is not null)
  union all (select name, spec from history where run_id = i.job_id and spec is not null limit 1)
  limit 1) n
