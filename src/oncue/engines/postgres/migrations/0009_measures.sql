-- When a run was let in, resumed or handed back last: it could not start before. Null: nothing has held it up. While it waits
-- for that it may be negative: when it was stored, so that who is let in by the same transaction was never held up.
alter table waiting add column free_at bigint;
alter table running add column free_at bigint;        -- or when its queue was resumed, if that was later; never negative
create table resumed (queue text primary key, at bigint not null);

-- Everybody's counters by class, so that sums over all users cost the same however many there are. Kept by triggers: they
-- are right whichever version adds to the counters. One at a time, since two would lock these rows in any order.
create table totals (class_id int, what text, n bigint not null, primary key (class_id, what)) with (fillfactor = 50);
create function keep_totals() returns trigger language plpgsql as $$
begin
  perform pg_advisory_xact_lock(1869505397, 2);
  if tg_op = 'INSERT' then
    insert into totals as t (class_id, what, n) select class_id, what, sum(n) from added group by 1, 2
      on conflict (class_id, what) do update set n = t.n + excluded.n;
  elsif tg_op = 'UPDATE' then
    update totals t set n = t.n + d.n from (
      select class_id, what, sum(n) as n from (select class_id, what, n from added union all select class_id, what, -n from gone) c group by 1, 2) d
      where t.class_id = d.class_id and t.what = d.what;
  else
    update totals t set n = t.n - d.n from (select class_id, what, sum(n) as n from gone group by 1, 2) d where t.class_id = d.class_id and t.what = d.what;
    delete from totals t using gone d where t.class_id = d.class_id and t.what = d.what and t.n = 0;
  end if;
  return null;
end $$;
create trigger counters_added after insert on counters referencing new table as added for each statement execute function keep_totals();
create trigger counters_changed after update on counters referencing old table as gone new table as added for each statement execute function keep_totals();
create trigger counters_removed after delete on counters referencing old table as gone for each statement execute function keep_totals();
insert into totals (class_id, what, n) select class_id, what, sum(n) from counters group by 1, 2;

-- Open dead letters are those that died, less those requeued or discarded. What left before that was counted is discarded.
insert into counters (uid, class_id, what, n)
select d.uid, d.class_id, 'discarded', d.n - coalesce(o.n, 0)
from (select uid, class_id, sum(n) as n from (
    select uid, class_id, what, n from counters union all select uid, class_id, what, n from tally) c where what = 'dead' group by 1, 2) d
  left join (select uid, class_id, count(*) as n from dead group by 1, 2) o on o.uid = d.uid and o.class_id = d.class_id
where d.n > coalesce(o.n, 0);

-- When it was counted, to the minute; of an attempt also how late it began and how long it took, as numbers of buckets.
alter table tally add column at bigint;
alter table tally add column lag smallint;
alter table tally add column took smallint;

-- The same over time. `what` is a count, in bucket 0, or a histogram. A line for each class (uid 0) and one for all (uid 0,
-- class 0), by minute and later by hour; and counts for each user (class 0), by hour: there may be as many users as runs.
create table series (
  uid int, class_id int, what text, at bigint, bucket smallint, n bigint not null, primary key (uid, class_id, what, at, bucket)) with (fillfactor = 50);
create index series_at on series (at);
create table series_hours (
  uid int, class_id int, what text, at bigint, bucket smallint, n bigint not null, primary key (uid, class_id, what, at, bucket)) with (fillfactor = 50);
create index series_hours_at on series_hours (at);
