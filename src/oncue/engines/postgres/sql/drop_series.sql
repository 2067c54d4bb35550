with old as (
  delete from series_hours where ctid = any(array(select ctid from series_hours where at < $1 order by at limit $2 for update skip locked)) returning 1)
select count(*) from old
