-- When the first notice was wanted that nobody has tried to send. Those tried before it are passed over, up to a bound.
select min(wanted) filter (where token = 0) as since from (
  select wanted, token from waiting where job_id = $1 and job_id <> run_id and wanted <= $2 order by wanted limit 1000) w
