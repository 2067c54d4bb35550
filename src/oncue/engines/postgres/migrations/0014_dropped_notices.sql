-- Notices of a user that were dropped because too many waited, and how many of them a digest has reported.
create table notices_dropped (uid int primary key, n bigint not null, reported bigint not null) with (fillfactor = 50);
