-- `running` is as small as the fleet, and has no index by class or user: it would cost every claim.
select class_id, count(*) as n from (select class_id, uid from running limit $2) r where $1::int is null or uid = $1 group by 1
