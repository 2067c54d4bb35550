select job_id, count(*), min(ended_at), max(ended_at)
from (select job_id, run_id, ended_at from dead where ended_at < $2 order by ended_at desc, run_id desc limit $1) d
where job_id <> run_id group by job_id order by 4 desc, job_id
