-- Ordered by the whole of the user's index, as in list_live.
select job_id, count(*), min(ended_at), max(ended_at)
from (select job_id, run_id, ended_at from dead where uid <= $2 and uid >= $2 order by uid desc, ended_at desc, run_id desc limit $1) d
where job_id <> run_id group by job_id order by 4 desc, job_id
