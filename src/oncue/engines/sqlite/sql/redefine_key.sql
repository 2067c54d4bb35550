update job_keys set definition = ? where uid = ? and key = ? and job_id = ? and definition is not null
