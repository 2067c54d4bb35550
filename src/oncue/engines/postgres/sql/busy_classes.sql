-- From class to class by the index: it reads neither classes without waiting runs, nor how many runs wait.
with recursive busy as (
  (select class_id from waiting where held = 0 and class_id > 0 order by class_id limit 1)  -- held: 0 no
  union all
  select n.class_id from busy b cross join lateral (
    select w.class_id from waiting w where w.held = 0 and w.class_id > b.class_id order by w.class_id limit 1) n)  -- held: 0 no
select class_id from busy limit $1
