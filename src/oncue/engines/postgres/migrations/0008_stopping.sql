-- What a claim has to know of a job whose runs have not all followed yet, and what else is to become of it.
alter table unfinished add column stops boolean not null default true;    -- nothing of it is claimed until they have
alter table unfinished add column drop_before bigint;                     -- occurrences before this one are dropped
alter table unfinished add column purge boolean not null default false;   -- then nothing of it is kept
alter table unfinished add column wanted bigint;                          -- how far its runs have been gone through
alter table unfinished add column run_id uuid;
alter table quotas add column runs bigint not null default 4611686018427387904;

-- The jobs of which nothing may be claimed. Each statement in here sees what was committed before it: after the lock, what
-- everybody noted who does not wait for us.
create function stopped_jobs() returns uuid[] language plpgsql as $$
begin
  perform pg_advisory_xact_lock_shared(1869505397, 1);
  return array(select job_id from unfinished where stops);
end $$;

-- Returns when all claims have come to their end that may not have seen what was noted before. Nobody waits for us.
create function claims_ended() returns void language plpgsql as $$
declare
  going text[] := array(select virtualtransaction from pg_locks
    where locktype = 'advisory' and classid = 1869505397 and objid = 1 and objsubid = 2 and granted);
begin
  while exists (select from pg_locks where locktype = 'advisory' and classid = 1869505397 and objid = 1 and objsubid = 2
    and granted and virtualtransaction = any(going)) loop
    perform pg_sleep(0.002);
  end loop;
end $$;

-- What is written to see whether anything can be.
create table probe (one boolean primary key, n bigint not null) with (fillfactor = 10);
