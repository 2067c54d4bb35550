-- In the order in which the classes are given, until the limit is reached: what is beyond is not read.
select d.class_id, count(*) as n from (
  select c.class_id from unnest($1::int[]) c(class_id) cross join lateral (
    select from waiting where class_id = c.class_id and held = 0 and due <= $2 order by due limit $3) w  -- held: 0 no
  limit $3) d
group by 1
