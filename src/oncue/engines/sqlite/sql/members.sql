select r.run_id, r.uid, r.class_id, r.lane, r.gate from carray(?1) asked cross join runs r on r.run_id = asked.value
