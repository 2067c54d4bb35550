select check_name, count(*) as n from findings where cleared_at is null group by 1 order by 1
