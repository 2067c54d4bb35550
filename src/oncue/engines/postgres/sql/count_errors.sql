-- How many groups each of these users has, counted up to a limit.
select i.uid, (select count(*) from (select from errors where uid = i.uid limit $2) found) as n from unnest($1::int[]) i (uid)
