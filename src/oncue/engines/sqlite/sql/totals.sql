select 0, class_id, what, n from totals order by class_id, what
