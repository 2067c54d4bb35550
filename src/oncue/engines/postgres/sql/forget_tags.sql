-- Tags after ($1, $2, $3). Each by its key: as joins these would read all of history.
with bite as (select uid, tag, job_id from job_tags where (uid, tag, job_id) > ($1, $2, $3) order by uid, tag, job_id limit $4),
gone as (
  delete from job_tags t using bite s where t.uid = s.uid and t.tag = s.tag and t.job_id = s.job_id and s.job_id < $5
    and (select job_id from jobs where job_id = s.job_id) is null
    and (select run_id from waiting where run_id = s.job_id) is null
    and (select run_id from running where run_id = s.job_id) is null
    and (select run_id from dead where run_id = s.job_id) is null
    and (select run_id from history where run_id = s.job_id limit 1) is null)
select uid, tag, job_id from bite order by uid desc, tag desc, job_id desc limit 1
