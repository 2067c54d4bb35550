-- From tag to tag, each found by the index: one tag may be on any number of jobs. {who}: whose; by another index without it.
with recursive found(tag, n) as (
  select min(tag), 1 from job_tags where {who}tag >= :begin and tag < :end
  union all
  select (select min(t.tag) from job_tags t where {who}t.tag > f.tag and t.tag < :end), n + 1 from found f where f.tag is not null and n < :limit)
select tag from found where tag is not null order by tag limit :limit
