-- name: cursors_ahead
select a.job_id, a.uid, j.class_id, j.spec, a.next_at, a.planned
from (
  select job_id, uid, next_at, planned from agenda
  where next_at >= $1 and next_at < $2 and (next_at, job_id) > ($3::bigint, $4::uuid) order by next_at, job_id limit $5) a
cross join lateral (select class_id, spec from jobs where jobs.job_id = a.job_id limit 1) j
order by a.next_at, a.job_id

-- name: cursors_ahead_of_user
-- Walks as in list_live.
select a.job_id, a.uid, j.class_id, j.spec, a.next_at, a.planned
from (
  select job_id, uid, next_at, planned from agenda
  where uid = any(array[$6::int]) and next_at >= $1 and next_at < $2 and (next_at, job_id) > ($3::bigint, $4::uuid)
  order by uid, next_at, job_id limit (select $5::int)) a
cross join lateral (select class_id, spec from jobs where jobs.job_id = a.job_id limit 1) j
order by a.next_at, a.job_id

-- name: due_ahead_of_user
-- Walks as in list_live, in the order of `wanted`: what nothing holds and was not tried yet is due then.
select w.class_id, w.wanted - w.wanted % $4::bigint, count(*) filter (where w.fits), max(w.wanted), count(*)
from (
  select class_id, wanted, held = 0 and class_id in (select unnest($1::int[])) as fits from waiting  -- held: 0 no
  where uid = any(array[$6::int]) and wanted >= $2 and wanted < $3 order by uid, wanted, run_id limit (select $5::int)) w
group by 1, 2

-- name: due_ahead
select c.class_id, w.due - w.due % $4::bigint, count(*), max(w.due)
from unnest($1::int[]) c(class_id) cross join lateral (
  select due from waiting where class_id = c.class_id and held = 0 and due >= $2 and due < $3  -- held: 0 no
  order by class_id, due, run_id limit (select $5::int)) w
group by 1, 2

-- name: retried_since
-- Each by its key, user after user, in the order of the whole index: few runs are retried at any moment, among any number that
-- wait, and no statistics can make another plan look cheaper.
select v.* from (select uid from users where $1::int is null or uid = $1) u
cross join lateral (
  select run_id, tried_at from waiting
  where (uid, tried_at) >= (u.uid, $2::bigint) and uid <= u.uid and tried_at is not null and failures + losses > 0
  order by uid desc, tried_at desc limit $3) t
cross join lateral (select * from waiting_runs where run_id = t.run_id limit 1) v
order by t.tried_at desc, v.run_id desc limit $3

-- name: list_held
-- With each run whether the walk stopped there: that row is returned also if it is of another worker or user.
select * from (
  select w.*, row_number() over (order by run_id) = (select $5::int) as stopped
  from (select * from running_runs where run_id > $3 order by run_id limit (select $5::int)) w) r
where stopped or (worker_id = $1 and ($2::int is null or uid = $2))
order by run_id limit $4

-- name: list_versions
select version, spec, payload, until from job_versions where job_id = $1 and version < $2 order by job_id desc, version desc limit $3

-- name: list_ledger
select * from ledger where job_id = $1 and (last_at, entry_id) < ($2, $3) order by last_at desc, entry_id desc limit $4

-- name: list_dead
select * from dead_runs where (ended_at, run_id) < ($1::bigint, $2::uuid) order by ended_at desc, run_id desc limit $3

-- name: list_dead_of_user
-- Ordered by the whole of the user's index, as in list_live.
select * from dead_runs where (uid, ended_at, run_id) < ($4::int, $1::bigint, $2::uuid) and uid >= $4
order by uid desc, ended_at desc, run_id desc limit $3

-- name: list_dead_of_kind
-- The columns are those of dead_runs, which has no fingerprint; ordered by the whole of the index.
select run_id, job_id, uid, class_id, state, wanted as due, wanted, nominal, trigger, token, failures, losses, job_version, 0::smallint as held,  -- held: 0 no
  started_at, ended_at, null::bigint as cancel_at, worker_id, error_type, error, result, attempts, payload, spec, null::bytea as progress, parent
from dead where (fingerprint, ended_at, run_id) < ($4::bigint, $1::bigint, $2::uuid) and fingerprint >= $4
order by fingerprint desc, ended_at desc, run_id desc limit $3

-- name: list_dead_of_group
-- The columns are those of dead_runs; ordered by the whole of the index, as in list_live.
select run_id, job_id, uid, class_id, state, wanted as due, wanted, nominal, trigger, token, failures, losses, job_version, 0::smallint as held,  -- held: 0 no
  started_at, ended_at, null::bigint as cancel_at, worker_id, error_type, error, result, attempts, payload, spec, null::bytea as progress, parent
from dead where (uid, fingerprint, ended_at, run_id) < ($4::int, $5::bigint, $1::bigint, $2::uuid) and uid >= $4 and fingerprint = $5
order by uid desc, fingerprint desc, ended_at desc, run_id desc limit $3

-- name: dead_by_job
select job_id, count(*), min(ended_at), max(ended_at)
from (select job_id, run_id, ended_at from dead where ended_at < $2 order by ended_at desc, run_id desc limit $1) d
where job_id <> run_id group by job_id order by 4 desc, job_id

-- name: dead_by_job_of_user
-- Ordered by the whole of the user's index, as in list_live.
select job_id, count(*), min(ended_at), max(ended_at)
from (select job_id, run_id, ended_at from dead where uid <= $2 and uid >= $2 order by uid desc, ended_at desc, run_id desc limit $1) d
where job_id <> run_id group by job_id order by 4 desc, job_id

-- name: list_live_named
-- The same for jobs with a name. Not all runs are jobs.
select p.job_id, p.uid, version, status, spec, payload, created_at, updated_at,
  coalesce(next_at, (select a.next_at from agenda a where a.job_id = p.job_id)) as next_at, fits, ends
from unnest($1::int[]) u(uid) cross join lateral (
  select * from (
    select w.*, is_job and ($2::int[] is null or class_id in (select unnest($2::int[]))) as fits,
      row_number() over (order by uid desc, job_id desc) = (select $4::int) as ends
    from (
      (select job_id, uid, class_id, version, status, spec, payload, created_at, updated_at, null::bigint as next_at,
         status = any($3::int[]) as is_job from jobs
       where uid = any(array[u.uid]) and name = $7::text and job_id < $6::uuid
       order by uid desc, job_id desc limit (select $4::int))
      union all
      (select run_id, uid, class_id, job_version, (held & 4 > 0)::int::smallint, spec, payload, null, updated_at, wanted,  -- held: 4 paused
         run_id = job_id and spec is not null and {held} from waiting
       where uid = any(array[u.uid]) and name = $7 and run_id < $6
       order by uid desc, run_id desc limit (select $4::int))
      union all
      (select run_id, uid, class_id, job_version, case when cancel_at is null then 0 else 3 end::smallint, spec, payload, null, updated_at, null,  -- status: 0 active, 3 cancelled
         true from running
       where uid = u.uid and run_id = job_id and spec is not null and run_id < $6 and name = $7 and {running}
       order by run_id desc limit (select $4::int))
      order by uid desc, job_id desc limit (select $4::int)) w) w
  where fits or ends
  order by uid desc, job_id desc limit (select $5::int)) p
order by p.job_id desc limit (select $5::int)

-- name: list_live_named_of_all
-- The same for jobs with a name, which is all the same in this order, and makes the planner take the index that has it.
select p.job_id, p.uid, version, status, spec, payload, created_at, updated_at,
  coalesce(next_at, (select a.next_at from agenda a where a.job_id = p.job_id)) as next_at, fits, ends
from (
  select * from (
    select w.*, is_job and ($2::int[] is null or class_id in (select unnest($2::int[]))) as fits,
      row_number() over (order by name desc, job_id desc) = (select $4::int) as ends
    from (
      (select job_id, uid, name, class_id, version, status, spec, payload, created_at, updated_at, null::bigint as next_at,
         status = any($3::int[]) as is_job from jobs
       where (name, job_id) < ((select $7::text), (select $6::uuid)) and name >= (select $7)
       order by name desc, job_id desc limit (select $4::int))
      union all
      (select run_id, uid, name, class_id, job_version, (held & 4 > 0)::int::smallint, spec, payload, null, updated_at, wanted,  -- held: 4 paused
         run_id = job_id and spec is not null and {held} from waiting
       where (name, run_id) < ((select $7), (select $6)) and name >= (select $7)
       order by name desc, run_id desc limit (select $4::int))
      union all
      (select run_id, uid, name, class_id, job_version, case when cancel_at is null then 0 else 3 end::smallint, spec, payload, null, updated_at, null,  -- status: 0 active, 3 cancelled
         true from running
       where run_id = job_id and spec is not null and run_id < $6 and name = $7 and {running}
       order by name desc, run_id desc limit (select $4::int))
      order by name desc, job_id desc limit (select $4::int)) w) w
  where fits or ends
  order by name desc, job_id desc limit (select $5::int)) p
where (select $1::int[]) is null
order by p.name desc, p.job_id desc limit (select $5::int)

-- name: list_live
-- Recurring jobs of some statuses and one-shots that have not ended, newest first. {held} and {running} say which of those.
-- All lists of jobs walk up to $4 entries of each user's own indexes and stop at the $5th match; `ends` is the last entry
-- that the walk may read. A set of one (the user), and limits that PostgreSQL does not know beforehand, keep it to the index
-- with the requested order, and to one plan for all values: planning takes longer than reading.
select p.job_id, p.uid, version, status, spec, payload, created_at, updated_at,
  coalesce(next_at, (select a.next_at from agenda a where a.job_id = p.job_id)) as next_at, fits, ends
from unnest($1::int[]) u(uid) cross join lateral (
  select * from (
    select w.*, $2::int[] is null or class_id in (select unnest($2::int[])) as fits,
      row_number() over (order by uid desc, job_id desc) = (select $4::int) as ends
    from (
      (select job_id, uid, class_id, version, status, spec, payload, created_at, updated_at, null::bigint as next_at from jobs
       where uid = any(array[u.uid]) and status = 0 and job_id < $6::uuid and 0 = any((select $3::int[])::int[])  -- status: 0 active
       order by uid desc, job_id desc limit (select $4::int))
      union all
      (select job_id, uid, class_id, version, status, spec, payload, created_at, updated_at, null from jobs
       where uid = any(array[u.uid]) and status = 1 and job_id < $6 and 1 = any((select $3)::int[])  -- status: 1 paused
       order by uid desc, job_id desc limit (select $4::int))
      union all
      (select job_id, uid, class_id, version, status, spec, payload, created_at, updated_at, null from jobs
       where uid = any(array[u.uid]) and status = 2 and job_id < $6 and 2 = any((select $3)::int[])  -- status: 2 finished
       order by uid desc, job_id desc limit (select $4::int))
      union all
      (select job_id, uid, class_id, version, status, spec, payload, created_at, updated_at, null from jobs
       where uid = any(array[u.uid]) and status = 3 and job_id < $6 and 3 = any((select $3)::int[])  -- status: 3 cancelled
       order by uid desc, job_id desc limit (select $4::int))
      union all
      (select run_id, uid, class_id, job_version, (held & 4 > 0)::int::smallint, spec, payload, null, updated_at, wanted from waiting  -- held: 4 paused
       where uid = any(array[u.uid]) and run_id < $6 and run_id = job_id and spec is not null and {held}
       order by uid desc, run_id desc limit (select $4::int))
      union all
      (select run_id, uid, class_id, job_version, case when cancel_at is null then 0 else 3 end::smallint, spec, payload, null, updated_at, null  -- status: 0 active, 3 cancelled
       from running where uid = u.uid and run_id = job_id and spec is not null and run_id < $6 and {running}
       order by run_id desc limit (select $4::int))
      order by uid desc, job_id desc limit (select $4::int)) w) w
  where fits or ends
  order by uid desc, job_id desc limit (select $5::int)) p
order by p.job_id desc limit (select $5::int)

-- name: list_live_of_all
-- Everybody's, whatever the number of users. What waits is walked in the order of ids, and not all runs are jobs.
select p.job_id, p.uid, version, status, spec, payload, created_at, updated_at,
  coalesce(next_at, (select a.next_at from agenda a where a.job_id = p.job_id)) as next_at, fits, ends
from (
  select * from (
    select w.*, is_job and ($2::int[] is null or class_id in (select unnest($2::int[]))) as fits,
      row_number() over (order by job_id desc) = (select $4::int) as ends
    from (
      (select job_id, uid, class_id, version, status, spec, payload, created_at, updated_at, null::bigint as next_at, true as is_job from jobs
       where status = any(array[0]) and job_id < $6::uuid and 0 = any((select $3::int[])::int[])  -- status: 0 active
       order by status desc, job_id desc limit (select $4::int))
      union all
      (select job_id, uid, class_id, version, status, spec, payload, created_at, updated_at, null, true from jobs
       where status = any(array[1]) and job_id < $6 and 1 = any((select $3)::int[])  -- status: 1 paused
       order by status desc, job_id desc limit (select $4::int))
      union all
      (select job_id, uid, class_id, version, status, spec, payload, created_at, updated_at, null, true from jobs
       where status = any(array[2]) and job_id < $6 and 2 = any((select $3)::int[])  -- status: 2 finished
       order by status desc, job_id desc limit (select $4::int))
      union all
      (select job_id, uid, class_id, version, status, spec, payload, created_at, updated_at, null, true from jobs
       where status = any(array[3]) and job_id < $6 and 3 = any((select $3)::int[])  -- status: 3 cancelled
       order by status desc, job_id desc limit (select $4::int))
      union all
      (select run_id, uid, class_id, job_version, (held & 4 > 0)::int::smallint, spec, payload, null, updated_at, wanted,  -- held: 4 paused
         run_id = job_id and spec is not null and {held} from waiting
       where run_id < $6 and (select $3)::int[] && array[0, 1]
       order by run_id desc limit (select $4::int))
      union all
      (select run_id, uid, class_id, job_version, case when cancel_at is null then 0 else 3 end::smallint, spec, payload, null, updated_at, null, true  -- status: 0 active, 3 cancelled
       from running where run_id < $6 and run_id = job_id and spec is not null and {running}
       order by run_id desc limit (select $4::int))
      order by job_id desc limit (select $4::int)) w) w
  where fits or ends
  order by job_id desc limit (select $5::int)) p
where (select $1::int[]) is null
order by p.job_id desc limit (select $5::int)

-- name: list_by_name
-- The same for jobs whose names are in a range, in their order, after the position ($6, $7).
select p.job_id, p.uid, version, status, spec, payload, created_at, updated_at,
  coalesce(next_at, (select a.next_at from agenda a where a.job_id = p.job_id)) as next_at, name, fits, ends
from unnest($1::int[]) u(uid) cross join lateral (
  select * from (
    select w.*, is_job and ($2::int[] is null or class_id in (select unnest($2::int[]))) as fits,
      row_number() over (order by uid, name, job_id) = (select $4::int) as ends
    from (
      (select job_id, uid, name, class_id, version, status, spec, payload, created_at, updated_at, null::bigint as next_at,
         status = any($3::int[]) as is_job from jobs
       where uid = any(array[u.uid]) and (name, job_id) > ((select $6::text), (select $7::uuid)) and name >= (select $8::text) and name < (select $9::text)
       order by uid, name, job_id limit (select $4::int))
      union all
      (select run_id, uid, name, class_id, job_version, (held & 4 > 0)::int::smallint, spec, payload, null, updated_at, wanted,  -- held: 4 paused
         run_id = job_id and spec is not null and {held} from waiting
       where uid = any(array[u.uid]) and (name, run_id) > ((select $6), (select $7)) and name >= (select $8) and name < (select $9)
       order by uid, name, run_id limit (select $4::int))
      union all
      (select run_id, uid, name, class_id, job_version, case when cancel_at is null then 0 else 3 end::smallint, spec, payload, null, updated_at, null,  -- status: 0 active, 3 cancelled
         true from running
       where uid = u.uid and run_id = job_id and spec is not null and (name, run_id) > ((select $6), (select $7)) and name >= (select $8) and name < (select $9) and {running}
       order by name, run_id limit (select $4::int))
      order by uid, name, job_id limit (select $4::int)) w) w
  where fits or ends
  order by uid, name, job_id limit (select $5::int)) p
order by p.name, p.job_id limit (select $5::int)

-- name: list_by_name_of_all
-- Everybody's jobs whose names are in a range: see list_by_name.
select p.job_id, p.uid, version, status, spec, payload, created_at, updated_at,
  coalesce(next_at, (select a.next_at from agenda a where a.job_id = p.job_id)) as next_at, name, fits, ends
from (
  select * from (
    select w.*, is_job and ($2::int[] is null or class_id in (select unnest($2::int[]))) as fits,
      row_number() over (order by name, job_id) = (select $4::int) as ends
    from (
      (select job_id, uid, name, class_id, version, status, spec, payload, created_at, updated_at, null::bigint as next_at,
         status = any($3::int[]) as is_job from jobs
       where (name, job_id) > ((select $6::text), (select $7::uuid)) and name >= (select $8::text) and name < (select $9::text)
       order by name, job_id limit (select $4::int))
      union all
      (select run_id, uid, name, class_id, job_version, (held & 4 > 0)::int::smallint, spec, payload, null, updated_at, wanted,  -- held: 4 paused
         run_id = job_id and spec is not null and {held} from waiting
       where (name, run_id) > ((select $6), (select $7)) and name >= (select $8) and name < (select $9)
       order by name, run_id limit (select $4::int))
      union all
      (select run_id, uid, name, class_id, job_version, case when cancel_at is null then 0 else 3 end::smallint, spec, payload, null, updated_at, null,  -- status: 0 active, 3 cancelled
         true from running
       where run_id = job_id and spec is not null and (name, run_id) > ((select $6), (select $7)) and name >= (select $8) and name < (select $9) and {running}
       order by name, run_id limit (select $4::int))
      order by name, job_id limit (select $4::int)) w) w
  where fits or ends
  order by name, job_id limit (select $5::int)) p
where (select $1::int[]) is null
order by p.name, p.job_id limit (select $5::int)

-- name: list_ended
-- One-shots that ended, newest end first.
select p.run_id as job_id, p.uid, job_version, status, spec, payload, null::bigint as created_at, ended_at, null::bigint as next_at, fits, ends
from unnest($1::int[]) u(uid) cross join lateral (
  select * from (
    select w.*, is_job and status = any($3::int[]) and ($2::int[] is null or class_id in (select unnest($2::int[]))) {begins} as fits,
      row_number() over (order by ended_at desc, run_id desc) = (select $4::int) as ends
    from (
      select run_id, uid, class_id, job_version, case state when 4 then 3 else 2 end as status, spec, payload, ended_at,  -- state: 4 cancelled; status: 2 finished, 3 cancelled
        name, run_id = job_id and spec is not null as is_job from history
      where uid = u.uid and (ended_at, run_id) < ($6::bigint, $7::uuid) {name}
      order by ended_at desc, run_id desc limit (select $4::int)) w) w
  where fits or ends
  order by ended_at desc, run_id desc limit (select $5::int)) p
order by p.ended_at desc, p.run_id desc limit (select $5::int)

-- name: list_ended_of_all
-- Everybody's one-shots that ended, newest end first, among the ends at $6, $7 of the users $1: see newest_ends.
select p.run_id as job_id, p.uid, job_version, status, spec, payload, null::bigint as created_at, ended_at, null::bigint as next_at, fits, ends
from (
  select w.*, is_job and status = any($3::int[]) and ($2::int[] is null or class_id in (select unnest($2::int[]))) {begins} as fits,
    row_number() over (order by ended_at desc, run_id desc) = (select $4::int) as ends
  from unnest($1::int[], $6::bigint[], $7::uuid[]) i(uid, at, id) cross join lateral (
    select run_id, uid, class_id, job_version, case state when 4 then 3 else 2 end as status, spec, payload, ended_at,  -- state: 4 cancelled; status: 2 finished, 3 cancelled
      name, run_id = job_id and spec is not null as is_job from history
    where uid = i.uid and ended_at = i.at and run_id = i.id limit 1) w) p
where fits or ends
order by p.ended_at desc, p.run_id desc limit (select $5::int)

-- name: list_tagged
-- An entry whose job is gone counts as read, too.
select p.job_id, p.uid, version, status, spec, payload, created_at, updated_at,
  coalesce(next_at, (select a.next_at from agenda a where a.job_id = p.job_id)) as next_at, fits, ends
from unnest($1::int[]) u(uid) cross join lateral (
  select * from (
    select w.*, j.*, status = any($3::int[]) and ($2::int[] is null or class_id in (select unnest($2::int[]))) and ($8::text is null or name = $8) as fits
    from (
      select t.*, row_number() over (order by uid desc, job_id desc) = (select $4::int) as ends from (
        select uid, job_id from job_tags where uid = any(array[u.uid]) and tag = $7 and job_id < $6::uuid
        order by uid desc, job_id desc limit (select $4::int)) t) w
    left join lateral (
      select class_id, version, status, name, spec, payload, created_at, updated_at, null::bigint as next_at
      from jobs where job_id = w.job_id
      union all
      select class_id, job_version, case state when 0 then (held & 4 > 0)::int when 1 then 0 when 4 then 3 else 2 end::smallint, name, spec,  -- state: 0 waiting, 1 running, 4 cancelled; held: 4 paused; status: 0 active, 2 finished, 3 cancelled
        payload, null, coalesce(ended_at, updated_at), next_at
      from one_shots where job_id = w.job_id
      limit 1) j on true) w
  where fits or ends
  order by uid desc, job_id desc limit (select $5::int)) p
order by p.job_id desc limit (select $5::int)

-- name: list_tagged_of_all
-- Everybody's: see list_tagged. The user of a tag is that of its job.
select p.job_id, p.uid, version, status, spec, payload, created_at, updated_at,
  coalesce(next_at, (select a.next_at from agenda a where a.job_id = p.job_id)) as next_at, fits, ends
from (
  select * from (
    select w.*, j.*, status = any($3::int[]) and ($2::int[] is null or class_id in (select unnest($2::int[]))) and ($8::text is null or name = $8) as fits
    from (
      select t.*, row_number() over (order by job_id desc) = (select $4::int) as ends from (
        select uid, job_id from job_tags where tag = $7 and job_id < $6::uuid
        order by job_id desc limit (select $4::int)) t) w
    left join lateral (
      select class_id, version, status, name, spec, payload, created_at, updated_at, null::bigint as next_at
      from jobs where job_id = w.job_id
      union all
      select class_id, job_version, case state when 0 then (held & 4 > 0)::int when 1 then 0 when 4 then 3 else 2 end::smallint, name, spec,  -- state: 0 waiting, 1 running, 4 cancelled; held: 4 paused; status: 0 active, 2 finished, 3 cancelled
        payload, null, coalesce(ended_at, updated_at), next_at
      from one_shots where job_id = w.job_id
      limit 1) j on true) w
  where fits or ends
  order by job_id desc limit (select $5::int)) p
where (select $1::int[]) is null
order by p.job_id desc limit (select $5::int)

-- name: list_window
-- Jobs by their next run, up to $8 and after the position ($7, $6). Not all waiting runs are jobs.
-- {tag} checks the tag of each entry that is read.
select p.job_id, p.uid, version, status, spec, payload, created_at, updated_at, next_at, fits, ends
from unnest($1::int[]) u(uid) cross join lateral (
  select * from (
    select w.*, row_number() over (order by uid, next_at, job_id) = (select $4::int) as ends,
      is_job and status = any($3::int[]) and ($2::int[] is null or class_id in (select unnest($2::int[]))) and ($9::text is null or name = $9) {tag} as fits
    from (
      (select a.uid, next_at, a.job_id, true as is_job, class_id, name, version, status, spec, payload, created_at, updated_at
       from (
         select uid, next_at, job_id from agenda
         where uid = any(array[u.uid]) and (next_at, job_id) > ((select $7::bigint), (select $6::uuid)) and next_at < (select $8::bigint)
         order by uid, next_at, job_id limit (select $4::int)) a
       left join lateral (select * from jobs where jobs.job_id = a.job_id limit 1) j on true
       order by a.uid, next_at, a.job_id limit (select $4::int))
      union all
      (select uid, wanted, run_id, run_id = job_id and spec is not null and held & 4 = 0, class_id, name, job_version, 0::smallint, spec,  -- held: 4 paused; status: 0 active
         payload, null, updated_at from waiting
       where uid = any(array[u.uid]) and (wanted, run_id) > ((select $7), (select $6)) and wanted < (select $8)
       order by uid, wanted, run_id limit (select $4::int))
      order by uid, next_at, job_id limit (select $4::int)) w) w
  where fits or ends
  order by uid, next_at, job_id limit (select $5::int)) p
order by p.next_at, p.job_id limit (select $5::int)

-- name: list_window_of_all
-- Everybody's jobs by their next run: see list_window. $1: the runs that wait in the window, see next_wanted.
select p.job_id, p.uid, version, status, spec, payload, created_at, updated_at, next_at, fits, ends
from (
  select * from (
    select w.*, row_number() over (order by next_at, job_id) = (select $4::int) as ends,
      is_job and status = any($3::int[]) and ($2::int[] is null or class_id in (select unnest($2::int[]))) and ($9::text is null or name = $9) {tag} as fits
    from (
      (select a.uid, next_at, a.job_id, true as is_job, class_id, name, version, status, spec, payload, created_at, updated_at
       from (
         select uid, next_at, job_id from agenda
         where (next_at, job_id) > ((select $7::bigint), (select $6::uuid)) and next_at < (select $8::bigint)
         order by next_at, job_id limit (select $4::int)) a
       left join lateral (select * from jobs where jobs.job_id = a.job_id limit 1) j on true
       order by next_at, a.job_id limit (select $4::int))
      union all
      (select uid, wanted, run_id, run_id = job_id and spec is not null and held & 4 = 0, class_id, name, job_version, 0::smallint, spec,  -- held: 4 paused; status: 0 active
         payload, null, updated_at from unnest($1::uuid[]) i(id) cross join lateral (select * from waiting where run_id = i.id limit 1) r)
      order by next_at, job_id limit (select $4::int)) w) w
  where fits or ends
  order by next_at, job_id limit (select $5::int)) p
order by p.next_at, p.job_id limit (select $5::int)

-- name: list_running
select * from running_runs where ($1::int is null or uid = $1) and ($2::uuid is null or job_id = $2)
  and wanted >= $3 and wanted < $4 and run_id > $5 order by run_id limit $6

-- name: ended_since
select p.* from unnest($1::int[]) u(uid) cross join lateral (
  select * from ended_runs where uid = u.uid and ended_at >= $2 order by ended_at desc, run_id desc limit $3) p
order by ended_at desc, run_id desc limit $3

-- name: list_waiting_of_job
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

-- name: list_waiting_of_all
-- In the order of ids, because no index has everybody's in the order of `wanted`: it would cost every run that is created.
select * from waiting_runs where run_id > $1::uuid order by run_id limit $2

-- name: list_waiting
-- Walks as in list_live.
select p.* from unnest($1::int[]) u(uid) cross join lateral (
  select * from waiting_runs where (uid, wanted, run_id) > (u.uid, $3::bigint, $4::uuid) and uid <= u.uid
  order by uid, wanted, run_id limit $5) p
where wanted < $2::bigint
order by wanted, run_id limit $5

-- name: list_history_of_job
select * from (
  (select * from ended_runs where run_id = $1 limit 1)
  union all
  (select * from ended_runs where job_id = $1 and job_id <> run_id and (ended_at, run_id) < ($2::bigint, $3::uuid)
   order by ended_at desc, run_id desc limit $4)) p
where job_id = $1 and (ended_at, run_id) < ($2::bigint, $3::uuid)
order by ended_at desc, run_id desc limit $4

-- name: list_history
select p.* from unnest($1::int[]) u(uid) cross join lateral (
  select * from ended_runs where uid = u.uid and (ended_at, run_id) < ($2::bigint, $3::uuid)
  order by ended_at desc, run_id desc limit $4) p
order by ended_at desc, run_id desc limit $4

-- name: ended_by_place
select v.* from unnest($1::int[], $2::bigint[], $3::uuid[]) i(uid, ended_at, run_id) cross join lateral (
  select * from ended_runs where uid = i.uid and ended_at = i.ended_at and run_id = i.run_id limit 1) v
order by v.ended_at desc, v.run_id desc

-- name: last_ended
-- The run of a one-shot, and the last runs of each job by its key. Of the attempts only the beginning, which has the first start.
select i.job_id as of_job, h.* from unnest($1::uuid[]) i(job_id) cross join lateral (
  select * from (
    (select run_id, state, wanted, nominal, started_at, ended_at, substr(attempts, 1, 120) as attempts, job_id from history where run_id = i.job_id limit 1)
    union all
    (select run_id, state, wanted, nominal, started_at, ended_at, substr(attempts, 1, 120), job_id from history
     where job_id = i.job_id and job_id <> run_id order by ended_at desc, run_id desc limit $2)) p
  where job_id = i.job_id
  order by ended_at desc, run_id desc limit $2) h

-- name: job_names
-- A run carries the definition of a one-shot; the further runs of one that has ended do not, and are found last.
select i.run_id, n.name, n.spec from unnest($1::uuid[], $2::uuid[], $3::bigint[]) i(run_id, job_id, ended_at) cross join lateral (
  select name, spec from jobs where job_id = i.job_id
  union all (select name, spec from waiting where run_id = i.job_id and spec is not null)
  union all (select name, spec from running where run_id = i.job_id and spec is not null)
  union all (select name, spec from history where run_id = i.run_id and ended_at = i.ended_at and spec is not null limit 1)
  union all (select name, spec from dead where run_id = i.run_id and spec is not null)
  union all (select name, spec from waiting where run_id = i.run_id and spec is not null)
  union all (select name, spec from running where run_id = i.run_id and spec is not null)
  union all (select name, spec from history where run_id = i.job_id and spec is not null limit 1)
  limit 1) n

-- name: last_and_next
-- What has not ended: the run that is the job itself, of its other runs that wait the first thousand, and the active attempts.
-- Each part by a key, as a set: for a join the planner would read all of the queue. What has ended is read afterwards: ended_of_jobs.
-- `next_at` is of runs that wait for their first attempt, `waits` of the run that is the job.
select run_id as near, w.*, wanted as next_at, true as waits from waiting_runs w where run_id = any($1::uuid[])
union all
select i.job_id, t.*, n.next_at, false from unnest($1) i(job_id) cross join lateral (
  select min(wanted) filter (where origin is null and token = 0) as next_at,
    (array_agg(run_id order by wanted desc, run_id desc) filter (where failures + losses > 0))[1] as tried
  from (
    select run_id, wanted, origin, token, failures, losses from waiting
    where job_id = i.job_id and job_id <> run_id order by wanted limit 1000) w
  having count(*) > 0) n
left join lateral (select * from waiting_runs where run_id = n.tried limit 1) t on true
union all
select run_id, r.*, null, false from running_runs r where run_id = any($1)
union all (
  select distinct on (job_id) job_id, r.*, null::bigint, false from running_runs r where job_id = any($1) and job_id <> run_id
  order by job_id, wanted desc, run_id desc)

-- name: ended_of_jobs
-- The run of each job that ended last, not before $2: that leaves out the partitions of the time before the job was created.
-- $3: whether the run that is the job itself may be among them; a recurring job is none.
select i.job_id as near, l.* from unnest($1::uuid[], $2::bigint[], $3::bool[]) i(job_id, since, own) cross join lateral (
  select * from (
    (select * from ended_runs where run_id = i.job_id and ended_at >= i.since and i.own
      and not exists (select from jobs where job_id = i.job_id) limit 1)
    union all (select * from ended_runs where job_id = i.job_id and job_id <> run_id and ended_at >= i.since
      order by ended_at desc, run_id desc limit 1)) p
  where job_id = i.job_id
  order by ended_at desc, run_id desc limit 1) l

-- name: newest_pieces
-- Where the partitions of history begin that have the newest ends before $1. One that was made ahead has none.
select from_at from pieces where parent = 'history' and from_at < $1 and from_at <= extract(epoch from clock_timestamp()) * 1000000
order by from_at desc limit 2

-- name: newest_ends
-- Of each user the next $4 after a position, by the index that has nothing else in it, and of all those the newest $9. The rows
-- themselves are read afterwards. All users from ($5, $6) on, or without those the users $1, each from a position of its own: to send a
-- thousand users takes as long as to find their ends.
select u.uid, f.ended_at, f.run_id
from (select uid, $5::bigint as at, $6::uuid as last from users where $5 is not null union all select * from unnest($1::int[], $2::bigint[], $3::uuid[])) u
cross join lateral (
  select ended_at, run_id from history
  where uid = u.uid and (ended_at, run_id) < (u.at, u.last) and ended_at >= $7 and ended_at <= $8
  order by ended_at desc, run_id desc limit (select $4::bigint)) f
order by f.ended_at desc, f.run_id desc limit $9

-- name: next_wanted
-- As newest_ends: of each user the next $4 that wait, in the order of `wanted`, up to $7, and of all those the first $8.
select u.uid, f.wanted, f.run_id
from (select uid, $5::bigint as at, $6::uuid as last from users where $5 is not null union all select * from unnest($1::int[], $2::bigint[], $3::uuid[])) u
cross join lateral (
  select wanted, run_id from waiting
  where uid = any(array[u.uid]) and (wanted, run_id) > (u.at, u.last) and wanted < $7
  order by uid, wanted, run_id limit (select $4::bigint)) f
order by f.wanted, f.run_id limit $8

-- name: recent_of_job
-- Its own run first, if it is a one-shot. Those retried are found by their user, as in retried_since: few are at any moment.
(select * from running_runs where run_id = $2 limit 1)
union all
(select * from running_runs where job_id = $2 and job_id <> run_id limit $4)
union all
(select * from ended_runs where run_id = $2 and ended_at >= $3 limit 1)
union all
(select * from ended_runs where job_id = $2 and job_id <> run_id and ended_at >= $3 order by ended_at desc, run_id desc limit $4)
union all
(select v.* from (
    select run_id from waiting
    where (uid, tried_at) >= ($1, $3::bigint) and uid <= $1 and tried_at is not null and failures + losses > 0 and job_id = $2
    order by uid desc, tried_at desc limit $4) t
  cross join lateral (select * from waiting_runs where run_id = t.run_id limit 1) v)

-- name: search_ids
-- Ids from $2 to $3. Of each table up to $4 entries, whoever's they are: ids of one minute begin alike.
select id from (
  select f.*, row_number() over (partition by own order by id desc) as place from (
    select distinct id, own from (
      (select job_id as id, uid, true as own from jobs where job_id >= $2::uuid and job_id <= $3::uuid order by job_id desc limit $4)
      union all (select run_id, uid, run_id = job_id from waiting where run_id >= $2 and run_id <= $3 order by run_id desc limit $4)
      union all (select run_id, uid, run_id = job_id from running where run_id >= $2 and run_id <= $3 order by run_id desc limit $4)
      union all (select run_id, uid, run_id = job_id from dead where run_id >= $2 and run_id <= $3 order by run_id desc limit $4)
      union all (select run_id, uid, run_id = job_id from history where run_id >= $2 and run_id <= $3 order by run_id desc limit $4)) a
    where $1::int is null or uid = $1) f) f
where place <= $5 order by id desc

-- name: search_endings
-- Everybody's, in the order of ids: that is the order of creation. Whole bytes are compared first: that takes half as long.
select distinct id from (
  (select job_id as id from jobs order by job_id desc limit (select $2::int))
  union all (select run_id from waiting order by run_id desc limit (select $2::int))
  union all (select run_id from waiting order by run_id limit (select $2::int))
  union all (select run_id from running order by run_id desc limit (select $2::int))
  union all (select run_id from dead order by run_id desc limit (select $2::int))
  union all (select run_id from history order by run_id desc limit (select $2::int))) a
where substr(uuid_send(id), $4::int) = $5::bytea and right(encode(uuid_send(id), 'hex'), length($1::text)) = $1 order by id desc limit $3

-- name: search_endings_of_user
-- Walks as in list_live. By both ends of what waits: the runs created last, and those that are due first. Whole bytes are compared
-- first: that takes half as long.
select distinct id from unnest(array[$4::int]) u(uid) cross join lateral (
  (select job_id as id from jobs where uid = any(array[u.uid]) and status = 0 order by uid desc, job_id desc limit (select $2::int))  -- status: 0 active
  union all (select job_id from jobs where uid = any(array[u.uid]) and status = 1 order by uid desc, job_id desc limit (select $2::int))  -- status: 1 paused
  union all (select job_id from jobs where uid = any(array[u.uid]) and status = 2 order by uid desc, job_id desc limit (select $2::int))  -- status: 2 finished
  union all (select job_id from jobs where uid = any(array[u.uid]) and status = 3 order by uid desc, job_id desc limit (select $2::int))  -- status: 3 cancelled
  union all (select run_id from waiting where uid = any(array[u.uid]) and run_id = job_id order by uid desc, run_id desc limit (select $2::int))
  union all (select run_id from waiting where uid = any(array[u.uid]) order by uid, wanted, run_id limit (select $2::int))
  union all (select run_id from running where uid = u.uid order by run_id desc limit (select $2::int))
  union all (select run_id from dead where uid = any(array[u.uid]) order by uid desc, ended_at desc, run_id desc limit (select $2::int))
  union all (select run_id from history where uid = u.uid order by ended_at desc, run_id desc limit (select $2::int))) a
where substr(uuid_send(id), $5::int) = $6::bytea and right(encode(uuid_send(id), 'hex'), length($1::text)) = $1 order by id desc limit $3

-- name: search_keys
select p.key, p.job_id
from unnest(array(select $1::int where $1 is not null union all (select uid from users where $1 is null order by uid desc limit $5))) u(uid)
cross join lateral (
  select key, job_id from job_keys where uid = any(array[u.uid]) and key >= $2::text and key < $3::text
  order by uid, key limit (select $4::int)) p
order by p.key, p.job_id limit (select $4::int)

-- name: search_tags_of_all
-- As search_tags, whoever's they are: by the index that begins with the tag.
with recursive found as (
  select (select tag from job_tags where tag >= $1::text and tag < $2::text order by tag, job_id limit 1) as tag, 1 as n
  union all
  select (select t.tag from job_tags t where t.tag > f.tag and t.tag < $2 order by t.tag, t.job_id limit 1), n + 1
  from found f where f.tag is not null and n < $3)
select tag from found where tag is not null order by tag limit $3

-- name: search_tags
-- From tag to tag, each found by the index: one tag may be on any number of jobs.
with recursive found as (
  select (select tag from job_tags t where t.uid = any(array[$1::int]) and tag >= $2::text and tag < $3::text order by t.uid, tag limit 1) as tag, 1 as n
  union all
  select (select t.tag from job_tags t where t.uid = any(array[$1::int]) and t.tag > f.tag and t.tag < $3 order by t.uid, t.tag limit 1), n + 1
  from found f where f.tag is not null and n < $4)
select tag from found where tag is not null order by tag limit $4

-- name: jobs_by_id
select j.job_id, j.uid, version, status, spec, payload, created_at, updated_at,
  coalesce(next_at, (select a.next_at from agenda a where a.job_id = j.job_id)) as next_at
from unnest($1::uuid[]) i(job_id) cross join lateral (
  select job_id, uid, version, status, spec, payload, created_at, updated_at, null::bigint as next_at from jobs where job_id = i.job_id
  union all
  select job_id, uid, job_version, case state when 0 then (held & 4 > 0)::int when 1 then 0 when 4 then 3 else 2 end::smallint, spec,  -- state: 0 waiting, 1 running, 4 cancelled; held: 4 paused; status: 0 active, 2 finished, 3 cancelled
    payload, null, coalesce(ended_at, updated_at), next_at
  from one_shots where job_id = i.job_id
  union all
  select run_id, uid, job_version, 2, spec, payload, null, ended_at, null from dead where run_id = i.job_id and run_id = job_id and spec is not null  -- status: 2 finished
  limit 1) j
where $2::int is null or uid = $2

-- name: runs_by_id
select r.* from unnest($1::uuid[]) i(run_id) cross join lateral (
  select * from waiting_runs where run_id = i.run_id
  union all select * from running_runs where run_id = i.run_id
  union all (select * from ended_runs where run_id = i.run_id limit 1)
  union all select run_id, job_id, uid, class_id, state, wanted, wanted, nominal, trigger, token, failures, losses, job_version, 0::smallint,  -- held: 0 no
    started_at, ended_at, null, worker_id, error_type, error, result, attempts, null, null, null, parent from dead where run_id = i.run_id
  limit 1) r
where $2::int is null or uid = $2

-- name: count_ended
-- See count_open.
with users_asked as materialized (select unnest($1::int[]) as uid),
ended_found as (
  select state, is_job, count(*) as n from (select f.* from users_asked u cross join lateral (
    select state, run_id = job_id and spec is not null as is_job from history
    where uid = u.uid order by ended_at desc, run_id desc limit (select $2::int)) f limit (select $2::int)) e
  group by 1, 2)
select 'job' as kind, 'finished' as status, count(*) as n from (select from users_asked u cross join lateral (
  select from jobs where uid = any(array[u.uid]) and status = 2 order by uid, job_id limit (select $2::int)) f limit (select $2::int)) c  -- status: 2 finished
union all select 'job', 'cancelled', count(*) from (select from users_asked u cross join lateral (
  select from jobs where uid = any(array[u.uid]) and status = 3 order by uid, job_id limit (select $2::int)) f limit (select $2::int)) c  -- status: 3 cancelled
union all select 'job', case when state = 4 then 'cancelled' else 'finished' end, n from ended_found where is_job  -- state: 4 cancelled
union all select 'run', case state when 2 then 'succeeded' when 3 then 'dead' when 4 then 'cancelled' else 'expired' end, n from ended_found  -- state: 2 succeeded, 3 dead, 4 cancelled
union all select 'letter', '', count(*) from (select from users_asked u cross join lateral (
  select from dead where uid = any(array[u.uid]) order by uid desc, ended_at desc, run_id desc limit (select $2::int)) f limit (select $2::int)) c

-- name: count_ended_of_all
-- Everybody's: see count_open_of_all.
with ended_found as (
  select state, is_job, count(*) as n from (
    select state, run_id = job_id and spec is not null as is_job from history order by run_id desc limit (select $1::int)) e
  group by 1, 2)
select 'job' as kind, 'finished' as status, count(*) as n from (select from jobs where status = 2 order by job_id limit (select $1::int)) c  -- status: 2 finished
union all select 'job', 'cancelled', count(*) from (select from jobs where status = 3 order by job_id limit (select $1::int)) c  -- status: 3 cancelled
union all select 'job', case when state = 4 then 'cancelled' else 'finished' end, n from ended_found where is_job  -- state: 4 cancelled
union all select 'run', case state when 2 then 'succeeded' when 3 then 'dead' when 4 then 'cancelled' else 'expired' end, n from ended_found  -- state: 2 succeeded, 3 dead, 4 cancelled
union all select 'letter', '', count(*) from (select from dead order by ended_at desc, run_id desc limit (select $1::int)) c

-- name: count_open
-- Each user's by the index in which they are next to each other, and no more than $2 of each kind. Of what waits: what is wanted
-- by now ($3); of what is wanted later only how many there are, which the index knows: nothing of it was tried; and the newest jobs.
with users_asked as materialized (select unnest($1::int[]) as uid),
jobs_waiting as (
  select paused, count(*) as n from (select f.* from users_asked u cross join lateral (
    select held & 4 > 0 as paused from waiting  -- held: 4 paused
    where uid = any(array[u.uid]) and run_id = job_id and spec is not null order by uid desc, run_id desc limit (select $2::int)) f limit (select $2::int)) w
  group by 1),
wanted as (
  select tried, later, count(*) as n from (select f.* from users_asked u cross join lateral (
    select failures + losses > 0 as tried, due > $3::bigint as later from waiting
    where uid = any(array[u.uid]) and wanted <= $3 order by uid, wanted, run_id limit (select $2::int)) f limit (select $2::int)) w
  group by 1, 2),
running_found as (
  select is_job, going, count(*) as n from (
    select run_id = job_id and spec is not null as is_job, cancel_at is null as going from running where uid = any($1) limit (select $2::int)) r
  group by 1, 2)
select 'job' as kind, 'active' as status, count(*) as n from (select from users_asked u cross join lateral (
  select from jobs where uid = any(array[u.uid]) and status = 0 order by uid, job_id limit (select $2::int)) f limit (select $2::int)) c  -- status: 0 active
union all select 'job', 'paused', count(*) from (select from users_asked u cross join lateral (
  select from jobs where uid = any(array[u.uid]) and status = 1 order by uid, job_id limit (select $2::int)) f limit (select $2::int)) c  -- status: 1 paused
union all select 'job', case when paused then 'paused' else 'active' end, n from jobs_waiting
union all select 'job', case when going then 'active' else 'cancelled' end, n from running_found where is_job
union all select 'run', case when tried then 'retrying' when later then 'scheduled' else 'queued' end, n from wanted
union all select 'run', 'scheduled', count(*) from (select from users_asked u cross join lateral (
  select from waiting where uid = any(array[u.uid]) and wanted > $3 order by uid, wanted, run_id limit (select $2::int)) f limit (select $2::int)) c
union all select 'run', case when going then 'running' else 'cancelling' end, n from running_found

-- name: count_open_of_all
-- Everybody's: see count_open. Whatever the number of users, no more than $1 of each kind are read. Of what waits: what is due
-- by now ($2), class by class, and the newest of the rest.
with recursive busy as (
  (select class_id from waiting where held = 0 and class_id > 0 order by class_id limit 1)  -- held: 0 no
  union all
  select n.class_id from busy b cross join lateral (
    select w.class_id from waiting w where w.held = 0 and w.class_id > b.class_id order by w.class_id limit 1) n),  -- held: 0 no
waiting_found as (
  select is_job, paused, tried, later, count(*) as n from (
    (select f.* from busy b cross join lateral (
      select run_id = job_id and spec is not null as is_job, false as paused, failures + losses > 0 as tried, false as later from waiting
      where class_id = b.class_id and held = 0 and due <= $2::bigint order by class_id, due, run_id limit (select $1::int)) f limit (select $1::int))  -- held: 0 no
    union all
    select is_job, held & 4 > 0, tried, due > $2 from (  -- held: 4 paused
      select run_id = job_id and spec is not null as is_job, held, due, failures + losses > 0 as tried from waiting
      order by run_id desc limit (select $1::int)) n where held > 0 or due > $2) w  -- held: 0 no
  group by 1, 2, 3, 4),
running_found as (
  select is_job, going, count(*) as n from (
    select run_id = job_id and spec is not null as is_job, cancel_at is null as going from running limit (select $1::int)) r
  group by 1, 2)
select 'job' as kind, 'active' as status, count(*) as n from (select from jobs where status = 0 order by job_id limit (select $1::int)) c  -- status: 0 active
union all select 'job', 'paused', count(*) from (select from jobs where status = 1 order by job_id limit (select $1::int)) c  -- status: 1 paused
union all select 'job', case when paused then 'paused' else 'active' end, n from waiting_found where is_job
union all select 'job', case when going then 'active' else 'cancelled' end, n from running_found where is_job
union all select 'run', case when tried then 'retrying' when later then 'scheduled' else 'queued' end, n from waiting_found
union all select 'run', case when going then 'running' else 'cancelling' end, n from running_found
