-- Due jobs, then those whose cursor other rules computed. These in the order of their index: there are hardly ever any, and a
-- plan that expects a third of the table reads all of it to find none.
with due as (
  select job_id from agenda where next_at >= $5 and next_at <= $1 and (rules is null or $4)
  order by next_at, job_id limit $2 for update skip locked),
older as (
  select job_id from agenda where $4 and rules < $3 and next_at > $1 and next_at < 4611686018427387904
  order by rules, job_id limit $2 - (select count(*) from due) for update skip locked),
newer as (
  select job_id from agenda where $4 and rules > $3 and next_at > $1 and next_at < 4611686018427387904
  order by rules, job_id limit $2 - (select count(*) from due) - (select count(*) from older) for update skip locked)
select job_id from due union all select job_id from older union all select job_id from newer
