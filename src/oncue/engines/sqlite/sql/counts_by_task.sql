select k.task, c.what, sum(c.n) from totals c cross join classes k on k.class_id = c.class_id group by 1, 2
