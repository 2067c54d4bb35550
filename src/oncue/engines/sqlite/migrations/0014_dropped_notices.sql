-- Notices of a user that were dropped because too many waited, and how many of them a digest has reported.
create table notices_dropped (uid integer primary key, n integer not null, reported integer not null);
