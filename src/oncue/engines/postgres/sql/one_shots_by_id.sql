-- One by one: for several at once the planner reads all of an index that it takes for small.
select o.* from unnest($1::uuid[]) i(job_id) cross join lateral (select * from one_shots s where s.job_id = i.job_id limit 1) o
