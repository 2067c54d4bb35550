select class_id from runs where held = 0 and class_id >= ? order by class_id limit 1  -- held: 0 no
