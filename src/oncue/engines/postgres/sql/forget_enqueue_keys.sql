-- Keys of jobs with smaller ids than $1, which are older, except of those that are still in the outbox.
with gone as (
  delete from enqueue_keys where job_id = any(array(
    select job_id from enqueue_keys k where job_id < $1 and (select job_id from outbox where job_id = k.job_id) is null
    order by job_id limit $2)) returning 1)
select count(*) from gone
