-- Where the partitions of history begin that have the newest ends before $1. One that was made ahead has none.
select from_at from pieces where parent = 'history' and from_at < $1 and from_at <= extract(epoch from clock_timestamp()) * 1000000
order by from_at desc limit 2
