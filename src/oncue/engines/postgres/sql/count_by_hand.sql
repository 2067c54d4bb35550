-- Counts up to a limit, as in count_open_jobs.
select count(*) from (select from waiting where uid = $1 and origin is not null limit $2) found
