select j.* from carray(?) asked cross join recurring_jobs j on j.job_id = asked.value
