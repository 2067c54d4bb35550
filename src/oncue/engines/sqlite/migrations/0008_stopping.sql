-- What a claim has to know of a job whose runs have not all followed yet, and what else is to become of it.
alter table unfinished add column stops integer not null default 1;       -- nothing of it is claimed until they have
alter table unfinished add column drop_before integer;                    -- occurrences before this one are dropped
alter table unfinished add column purge integer not null default 0;       -- then nothing of it is kept
alter table unfinished add column run_id blob;                            -- how far its runs have been gone through
alter table quotas add column runs integer not null default 4611686018427387904;

-- What is written to see whether anything can be.
create table probe (one integer primary key, n integer not null);
