-- With their keys: nothing is left that a repeat could return.
with gone as (delete from outbox where job_id = any($1::uuid[]) returning job_id),
freed as (delete from enqueue_keys where job_id = any(array(select job_id from gone)))
select job_id from gone
