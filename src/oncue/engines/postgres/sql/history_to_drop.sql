-- $2: only what is in the archive.
select max(until_at) from pieces where parent = 'history' and until_at <= $1 and (archived_rows is not null or not $2::boolean) having count(*) > 0
