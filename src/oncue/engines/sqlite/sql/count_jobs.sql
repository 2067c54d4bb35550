select status, count(*) from (select status from jobs {who} order by job_id desc limit :most) group by 1
