-- When a run was let in, resumed or handed back last: it could not start before. Null: nothing has held it up. While it waits
-- for that it may be negative: when it was stored, so that who is let in by the same transaction was never held up.
alter table runs add column free_at integer;
create table resumed (queue text primary key, at integer not null) without rowid;

-- Everybody's counters by class, so that sums over all users cost the same however many there are. Kept by triggers: they
-- are right whichever version adds to the counters.
create table totals (class_id integer, what text, n integer not null, primary key (class_id, what)) without rowid;
create trigger counters_added after insert on counters begin
  insert into totals (class_id, what, n) values (new.class_id, new.what, new.n) on conflict do update set n = n + excluded.n;
end;
create trigger counters_changed after update on counters begin
  update totals set n = n + new.n - old.n where class_id = new.class_id and what = new.what;
end;
create trigger counters_removed after delete on counters begin
  update totals set n = n - old.n where class_id = old.class_id and what = old.what;
  delete from totals where class_id = old.class_id and what = old.what and n = 0;
end;
insert into totals (class_id, what, n) select class_id, what, sum(n) from counters group by 1, 2;

-- Open dead letters are those that died, less those requeued or discarded. What left before that was counted is discarded.
insert into counters (uid, class_id, what, n)
select uid, class_id, 'discarded', n - (select count(*) from dead d where d.uid = c.uid and d.class_id = c.class_id) from counters c
where what = 'dead' and n > (select count(*) from dead d where d.uid = c.uid and d.class_id = c.class_id);

-- What is counted or measured, by the minute: appended, and folded into the series once a second.
create table tally (uid integer not null, class_id integer not null, what text not null, bucket integer not null, at integer not null, n integer not null);

-- Counts and measures over time. `what` is a count, in bucket 0, or a histogram. A line for each class (uid 0) and one for all
-- (uid 0, class 0), by minute and later by hour; and counts for each user (class 0), by hour: there may be as many users as runs.
create table series (
  uid integer, class_id integer, what text, at integer, bucket integer, n integer not null,
  primary key (uid, class_id, what, at, bucket)) without rowid;
create index series_at on series (at);
create table series_hours (
  uid integer, class_id integer, what text, at integer, bucket integer, n integer not null,
  primary key (uid, class_id, what, at, bucket)) without rowid;
create index series_hours_at on series_hours (at);
