-- name: cursors_ahead
select a.job_id, a.uid, j.class_id, j.spec, a.next_at, a.planned from agenda a cross join jobs j on j.job_id = a.job_id
where {who}a.next_at >= :since and a.next_at < :until and (a.next_at, a.job_id) > (:at, :last) order by a.next_at, a.job_id limit :limit

-- name: due_ahead
-- Entries of other users count as read.
select :class_id, due - due % :step, count(*), max(due), uid
from (
  select due, uid from runs indexed by runs_due where class_id = :class_id and held = 0 and due >= :since and due < :until  -- held: 0 no
  order by due, run_id limit :most)
group by 2, 5

-- name: retried_since
select v.run_id, v.job_id, v.uid, v.class_id, v.state, v.due, v.wanted, v.nominal, v.trigger, v.token, v.failures, v.losses, v.job_version,
  v.held, v.started_at, v.ended_at, v.cancel_at, v.worker_id, v.error_type, v.error, v.result, v.attempts, null, v.spec, v.progress, v.parent
from users u cross join runs r indexed by runs_tried on r.uid = u.uid and r.tried_at >= ?2 and r.failures + r.losses > 0
cross join live_runs v on v.run_id = r.run_id and v.state = 0  -- state: 0 waiting
where ?1 is null or u.uid = ?1 order by r.tried_at desc, r.run_id desc limit ?3

-- name: list_held
-- With each run whether the walk stopped there: that row is returned also if it is of another worker or user.
select v.run_id, v.job_id, v.uid, v.class_id, v.state, v.due, v.wanted, v.nominal, v.trigger, v.token, v.failures, v.losses, v.job_version,
  v.held, v.started_at, v.ended_at, v.cancel_at, v.worker_id, v.error_type, v.error, v.result, v.attempts, null, v.spec, v.progress, v.parent, x.stopped
from (select run_id, worker_id, row_number() over (order by run_id) = ?5 as stopped from running where run_id > ?3 order by run_id limit ?5) x
  cross join live_runs v on v.run_id = x.run_id
where x.stopped or (x.worker_id = ?1 and (?2 is null or v.uid = ?2))
order by x.run_id limit ?4

-- name: list_versions
select version, spec, payload, until from job_versions where job_id = ? and version < ? order by version desc limit ?

-- name: list_ledger
select job_id, first_at, last_at, n, outcome, reason, run_id, entry_id from ledger
where job_id = ?1 and (last_at, entry_id) < (?2, ?3) order by last_at desc, entry_id desc limit ?4

-- name: list_dead
select run_id, job_id, uid, class_id, state, wanted, wanted, nominal, trigger, token, failures, losses, job_version, 0, started_at, ended_at, null,
  worker_id, error_type, error, result, attempts, payload, spec, null, parent
from dead where {who}(ended_at, run_id) < (:at, :last) order by ended_at desc, run_id desc limit :limit

-- name: dead_by_job
select job_id, count(*), min(ended_at), max(ended_at)
from (select job_id, run_id, ended_at from dead {who} order by ended_at desc, run_id desc limit :most)
where job_id <> run_id group by job_id order by 4 desc, job_id

-- name: list_recurring
select * from recurring_jobs where {who}job_id < :last order by job_id desc

-- name: list_one_shots
select * from live_one_shots where {who}job_id < :last order by job_id desc

-- name: list_by_name
select * from {jobs} where {who}name >= ?2 and name < ?3 and (name, job_id) > (?4, ?5) order by name, job_id

-- name: list_ended_jobs
-- With the columns of a live job; a run that is not a job has no spec here.
select run_id, uid, job_version, iif(state = 4, 3, 2), class_id, name, null, ended_at, iif(run_id = job_id, spec, null), payload, null  -- state: 4 cancelled; status: 2 finished, 3 cancelled
from {piece} where uid = :uid {narrowed}and (ended_at, run_id) < (:at, :last) order by ended_at desc, run_id desc limit :limit

-- name: list_tagged
select job_id from job_tags where {who}tag = ?2 and job_id < ?3 order by job_id desc

-- name: list_agenda
select j.* from agenda a cross join recurring_jobs j on j.job_id = a.job_id
where {who}a.next_at >= :start and a.next_at < :end and (a.next_at, a.job_id) > (:at, :last) order by a.next_at, a.job_id

-- name: some_run_ids
select run_id from runs where uid = ? limit ?

-- name: few_in_window
select * from live_one_shots where uid = :uid and next_at >= :start and next_at < :end and (next_at, job_id) > (:at, :last)

-- name: due_in_window
select s.* from runs r cross join live_one_shots s on s.job_id = r.run_id
where r.class_id = :class_id and r.held = 0 and r.due >= :start and r.due < :end and (r.due, r.run_id) > (:at, :last) {who}and s.next_at is not null  -- held: 0 no
order by r.due, r.run_id

-- name: held_in_window
select s.* from runs r indexed by runs_held cross join live_one_shots s on s.job_id = r.run_id
where r.held > 0 and r.run_id = r.job_id and r.due >= :start and r.due < :end and (r.due, r.run_id) > (:at, :last) {who}  -- held: 0 no
order by r.due, r.run_id

-- name: list_running
select v.run_id, v.job_id, v.uid, v.class_id, v.state, v.due, v.wanted, v.nominal, v.trigger, v.token, v.failures, v.losses, v.job_version,
  v.held, v.started_at, v.ended_at, v.cancel_at, v.worker_id, v.error_type, v.error, v.result, v.attempts, null, v.spec, v.progress, v.parent
from running x cross join live_runs v on v.run_id = x.run_id where x.run_id > ? order by x.run_id

-- name: list_waiting_of_job
select run_id, job_id, uid, class_id, state, due, wanted, nominal, trigger, token, failures, losses, job_version, held, started_at, ended_at, cancel_at,
  worker_id, error_type, error, result, attempts, null as payload, spec, progress, parent
from live_runs where {which} and run_id > ?2 and state = 0 order by run_id  -- state: 0 waiting

-- name: list_waiting
select run_id, job_id, uid, class_id, state, due, wanted, nominal, trigger, token, failures, losses, job_version, held, started_at, ended_at, cancel_at,
  worker_id, error_type, error, result, attempts, null as payload, spec, progress, parent
from live_runs where {who}run_id > :last and state = 0 order by run_id  -- state: 0 waiting

-- name: list_ended_of_job
select run_id, job_id, uid, class_id, state, wanted, wanted, nominal, trigger, token, failures, losses, job_version, 0, started_at, ended_at, null,
  worker_id, error_type, error, result, attempts, null, spec, null, parent
from {piece} where {which} and (ended_at, run_id) < (?2, ?3) order by ended_at desc, run_id desc

-- name: list_ended
select run_id, job_id, uid, class_id, state, wanted, wanted, nominal, trigger, token, failures, losses, job_version, 0, started_at, ended_at, null,
  worker_id, error_type, error, result, attempts, null, spec, null, parent
from {piece} where uid = :uid and (ended_at, run_id) < (:at, :last) order by ended_at desc, run_id desc limit :limit

-- name: count_jobs
select status, count(*) from (select status from jobs {who} order by job_id desc limit :most) group by 1

-- name: count_live
select state, is_job, paused, later, tries, stopping, count(*) from (
  select state, run_id = job_id and spec is not null as is_job, held & 4 > 0 as paused, due > :now as later, failures + losses > 0 as tries,  -- held: 4 paused
    cancel_at is not null as stopping from live_runs {who} order by run_id desc limit :most)
group by 1, 2, 3, 4, 5, 6

-- name: count_ended
select state, is_job, count(*) from (
  select state, run_id = job_id and spec is not null as is_job from {piece} {who} order by {newest} limit :most)
group by 1, 2

-- name: last_ended
-- Of each job of ?1 the run that is the job, and the last ?2 others, in this partition; newest first. Of the attempts only the
-- beginning, which has the first start.
select job_id, run_id, state, wanted, nominal, started_at, ended_at, substr(attempts, 1, 120)
from (
  select rowid as place from {piece} where run_id in (select unhex(value) from json_each(?1)) and job_id = run_id
  union all
  select r.rowid from json_each(?1) j cross join {piece} r on r.rowid in (
    select rowid from {piece} where job_id = unhex(j.value) and job_id <> run_id order by ended_at desc, run_id desc limit ?2)) p
cross join {piece} h where h.rowid = p.place
order by ended_at desc, run_id desc

-- name: name_in_run
select name, spec from {table} where run_id = ? and spec is not null

-- name: live_runs
-- As live_run, of many.
select run_id, job_id, uid, class_id, state, due, wanted, nominal, trigger, token, failures, losses, job_version, held, started_at, ended_at, cancel_at,
  worker_id, error_type, error, result, attempts, null as payload, spec, progress, parent
from carray(?) asked cross join live_runs r on r.run_id = asked.value

-- name: runs_of_jobs
-- As runs_of_job, of many jobs, ?1, in any order, and at most ?2.
select r.job_id, r.run_id, r.wanted, r.nominal, r.origin, r.held, r.token, r.tries, exists (select 1 from running x where x.run_id = r.run_id) from (
  select job_id, run_id, wanted, nominal, origin, held, token, failures + losses as tries from runs
  where run_id in (select unhex(value) from json_each(?1)) and job_id = run_id
  union all
  select job_id, run_id, wanted, nominal, origin, held, token, failures + losses from runs
  where job_id in (select unhex(value) from json_each(?1)) and job_id <> run_id) r
limit ?2

-- name: last_ended_of_jobs
-- Of each job of ?1 the run that ended last in this partition; and those that are themselves a job of ?2.
select run_id, job_id, uid, class_id, state, wanted, wanted, nominal, trigger, token, failures, losses, job_version, 0, started_at, ended_at, null,
  worker_id, error_type, error, result, attempts, null, spec, null, parent
from (
  select rowid as place from {piece} where run_id in (select unhex(value) from json_each(?2)) and job_id = run_id
  union all
  select (select rowid from {piece} where job_id = unhex(j.value) and job_id <> run_id order by ended_at desc, run_id desc limit 1) from json_each(?1) j) p
cross join {piece} h where h.rowid = p.place

-- name: recent_running_of_job
-- `running` is as small as the fleet; the job may have any number of waiting runs.
select v.run_id, v.job_id, v.uid, v.class_id, v.state, v.due, v.wanted, v.nominal, v.trigger, v.token, v.failures, v.losses, v.job_version,
  v.held, v.started_at, v.ended_at, v.cancel_at, v.worker_id, v.error_type, v.error, v.result, v.attempts, null, v.spec, v.progress, v.parent
from running x cross join live_runs v on v.run_id = x.run_id where v.job_id = ?1 limit ?2

-- name: recent_ended_of_job
-- The job's own run, if it is a one-shot, and its others, each by an index.
select run_id, job_id, uid, class_id, state, wanted, wanted, nominal, trigger, token, failures, losses, job_version, 0, started_at, ended_at, null,
  worker_id, error_type, error, result, attempts, null, spec, null, parent
from {piece} where run_id = ?1 and ended_at >= ?2
union all
select * from (
  select run_id, job_id, uid, class_id, state, wanted, wanted, nominal, trigger, token, failures, losses, job_version, 0, started_at, ended_at, null,
  worker_id, error_type, error, result, attempts, null, spec, null, parent
  from {piece} where job_id = ?1 and job_id <> run_id and ended_at >= ?2 order by ended_at desc, run_id desc limit ?3)
limit ?3

-- name: retried_of_job
select v.run_id, v.job_id, v.uid, v.class_id, v.state, v.due, v.wanted, v.nominal, v.trigger, v.token, v.failures, v.losses, v.job_version,
  v.held, v.started_at, v.ended_at, v.cancel_at, v.worker_id, v.error_type, v.error, v.result, v.attempts, null, v.spec, v.progress, v.parent
from runs r indexed by runs_tried cross join live_runs v on v.run_id = r.run_id and v.state = 0  -- state: 0 waiting
where r.uid = ?1 and r.tried_at >= ?3 and r.failures + r.losses > 0 and r.job_id = ?2 order by r.tried_at desc, r.run_id desc limit ?4

-- name: search_keys
select key, job_id from job_keys where uid = ?1 and key >= ?2 and key < ?3 order by key limit ?4

-- name: search_tags
-- From tag to tag, each found by the index: one tag may be on any number of jobs. {who}: whose; by another index without it.
with recursive found(tag, n) as (
  select min(tag), 1 from job_tags where {who}tag >= :begin and tag < :end
  union all
  select (select min(t.tag) from job_tags t where {who}t.tag > f.tag and t.tag < :end), n + 1 from found f where f.tag is not null and n < :limit)
select tag from found where tag is not null order by tag limit :limit

-- name: search_ids
-- Up to :scan entries, whoever's they are: ids of one minute begin alike.
select {key}, job_id = {key} from (
  select {key}, job_id, uid from {table} where {key} between :first and :last order by {key} desc limit :scan)
where :uid is null or uid = :uid

-- name: search_endings
select {key} from (select {key} from {table} {who} order by {order} limit :scan) where substr(hex({key}), :length) = :ending

-- name: live_run
select run_id, job_id, uid, class_id, state, due, wanted, nominal, trigger, token, failures, losses, job_version, held, started_at, ended_at, cancel_at,
  worker_id, error_type, error, result, attempts, null as payload, spec, progress, parent
from live_runs where run_id = ?

-- name: recurring_job
select * from recurring_jobs where job_id = ?

-- name: one_shot
select * from live_one_shots where job_id = ?

-- name: find_ended_job
select run_id, uid, job_version, iif(state = 4, 3, 2), class_id, name, null, ended_at, iif(run_id = job_id, spec, null), payload, null, 1  -- state: 4 cancelled; status: 2 finished, 3 cancelled
from {table} where run_id = ?

-- name: recurring_by_id
select j.* from carray(?) asked cross join recurring_jobs j on j.job_id = asked.value

-- name: one_shots_by_id
select s.* from carray(?) asked cross join live_one_shots s on s.job_id = asked.value
