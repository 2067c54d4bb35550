-- Definitions of recurring jobs, at the version their runs started with.
select t.job_id, t.version, d.spec, d.payload
from unnest($1::uuid[], $2::int[]) t(job_id, version) cross join lateral (
  select spec, payload from jobs j where j.job_id = t.job_id and j.version = t.version
  union all
  select spec, payload from job_versions v where v.job_id = t.job_id and v.version = t.version
  limit 1) d
