-- A job may have a million waiting runs, and a page reads its own: first how far it goes, in the order of the index, then its
-- runs. By old statistics the planner would sort all runs instead.
with last as (
  select max(wanted) as wanted from (
    select wanted from waiting where job_id = $1 and job_id <> run_id
      and wanted >= greatest($2::bigint, $4::bigint) and wanted < $3 and (wanted > $4::bigint or run_id > $5::uuid)
    order by wanted limit $6) w)
select * from (
  (select * from waiting_runs where run_id = $1 and job_id = $1 limit 1)
  union all
  (select * from waiting_runs where job_id = $1 and job_id <> run_id
     and wanted >= greatest($2::bigint, $4::bigint) and wanted <= (select wanted from last))) p
where wanted >= $2 and wanted < $3 and (wanted, run_id) > ($4::bigint, $5::uuid)
order by wanted, run_id limit $6
