select r.run_id from carray(?1) asked cross join runs r on r.run_id = asked.value where r.held & 1 = 1 and r.failures + r.losses = 0
