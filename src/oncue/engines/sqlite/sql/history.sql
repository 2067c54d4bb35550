-- name: append_log
insert into run_logs (run_id, number, text, at)
select ?1, ?2, ?3, ?4 where substr(?3, 1, 1) = x'01'
  or length(?3) + (select coalesce(sum(length(text)), 0) from run_logs where run_id = ?1 and substr(text, 1, 1) <> x'01') <= ?5
returning number

-- name: totals
select 0, class_id, what, n from totals order by class_id, what

-- name: counters
select uid, class_id, what, n from counters where uid = ? order by class_id, what

-- name: open_letters
select uid, sum(case what when 'dead' then n else -n end) as n from counters
where what in ('dead', 'requeued', 'discarded') and uid <> 0 group by uid having sum(case what when 'dead' then n else -n end) >= ?1

-- name: sizes
select page_count, page_size from pragma_page_count, pragma_page_size

-- name: series
select at - at % ?6, bucket, sum(n)
from (
  select at, bucket, n from series where uid = ?1 and class_id in (select value from carray(?2)) and what = ?3 and at >= ?4 and at < ?5
  union all
  select at, bucket, n from series_hours where uid = ?1 and class_id in (select value from carray(?2)) and what = ?3 and at >= ?4 and at < ?5)
group by 1, 2 order by 1, 2

-- name: find_ended_run
select run_id, job_id, uid, class_id, state, wanted, wanted, nominal, trigger, token, failures, losses, job_version, 0, started_at, ended_at, null,
  worker_id, error_type, error, result, attempts, payload, spec, null, parent
from {table} where run_id = ?

-- name: standing_among_due
select count(*) from (
  select 1 from runs r where class_id = ?1 and held = 0 and (due, run_id) < (?2, ?3)  -- held: 0 no
    and not exists (select 1 from running x where x.run_id = r.run_id)
  order by due, run_id limit 10000)

-- name: standing_in_lane
-- The runs that hold a lane or gate, active ones first.
select r.run_id from runs r where r.{lane} = ?1 and {inside} and r.run_id <> ?2
order by not exists (select 1 from running x where x.run_id = r.run_id), r.failures + r.losses = 0, r.wanted, r.run_id limit 1

-- name: standing_in_line
-- How many runs in line for a lane or gate are before this one. Paused runs do not count.
select count(*) from (select 1 from runs where {lane} = ?1 and {in_line} and (wanted, run_id) < (?2, ?3) limit 10000)

-- name: take_off
delete from dead where run_id = ?1 and (?2 is null or uid = ?2) returning uid, class_id
