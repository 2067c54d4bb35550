select s.* from carray(?) asked cross join live_one_shots s on s.job_id = asked.value
