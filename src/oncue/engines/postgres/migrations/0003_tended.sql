-- By which time the store was tended last: a clock that was set forward by mistake moves it a little at a time.
create table tended (at bigint);
insert into tended values (null);
