select r.run_id, r.token from carray(?1) asked cross join runs r on r.run_id = asked.value
