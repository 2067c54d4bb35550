-- As search_tags, whoever's they are: by the index that begins with the tag.
with recursive found as (
  select (select tag from job_tags where tag >= $1::text and tag < $2::text order by tag, job_id limit 1) as tag, 1 as n
  union all
  select (select t.tag from job_tags t where t.tag > f.tag and t.tag < $2 order by t.tag, t.job_id limit 1), n + 1
  from found f where f.tag is not null and n < $3)
select tag from found where tag is not null order by tag limit $3
