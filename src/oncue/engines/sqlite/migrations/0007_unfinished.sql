-- Jobs that were paused, resumed or cancelled, and not all of whose runs have followed yet; runs asked for by hand after
-- `since` do not follow a pause.
create table unfinished (job_id blob primary key, since integer not null) without rowid;
