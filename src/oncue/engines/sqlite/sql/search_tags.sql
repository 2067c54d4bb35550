-- From tag to tag, each found by the index: one tag may be on any number of jobs.
with recursive found(tag, n) as (
  select min(tag), 1 from job_tags where uid = ?1 and tag >= ?2 and tag < ?3
  union all
  select (select min(t.tag) from job_tags t where t.uid = ?1 and t.tag > f.tag and t.tag < ?3), n + 1 from found f where f.tag is not null and n < ?4)
select tag from found where tag is not null
