-- Jobs that are not due, but whose cursor other rules computed. There are hardly ever any: the index says so at once.
with others as materialized (
  select * from (
    select job_id from agenda indexed by agenda_rules where rules < ?3 and next_at > ?1 and next_at < 4611686018427387904
    order by rules, job_id limit ?2)
  union all
  select * from (
    select job_id from agenda indexed by agenda_rules where rules > ?3 and next_at > ?1 and next_at < 4611686018427387904
    order by rules, job_id limit ?2)
  limit ?2)
select j.job_id, j.uid, j.version, j.class_id, j.spec, a.next_at, a.floor, a.planned, a.rules
from others o cross join agenda a on a.job_id = o.job_id cross join jobs j on j.job_id = o.job_id where j.status = 0  -- status: 0 active
