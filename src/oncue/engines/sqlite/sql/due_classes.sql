select asked.value from carray(?1) asked
where exists (select 1 from runs where class_id = asked.value and held = 0 and due > ?2 and due <= ?3)  -- held: 0 no
