-- Jobs that were paused, resumed or cancelled, and not all of whose runs have followed yet; runs asked for by hand after
-- `since` do not follow a pause.
create table unfinished (job_id uuid primary key, since bigint not null);
