with gone as materialized (select run_id, ended_at from history where uid = $1 and job_id = $2 order by ended_at limit $3),
logs as (delete from run_logs l using gone where l.run_id = gone.run_id)
delete from history h using gone where h.run_id = gone.run_id and h.ended_at = gone.ended_at returning h.run_id
