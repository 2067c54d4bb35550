-- From tag to tag, each found by the index: one tag may be on any number of jobs.
with recursive found as (
  select (select tag from job_tags t where t.uid = any(array[$1::int]) and tag >= $2::text and tag < $3::text order by t.uid, tag limit 1) as tag, 1 as n
  union all
  select (select t.tag from job_tags t where t.uid = any(array[$1::int]) and t.tag > f.tag and t.tag < $3 order by t.uid, t.tag limit 1), n + 1
  from found f where f.tag is not null and n < $4)
select tag from found where tag is not null order by tag limit $4
