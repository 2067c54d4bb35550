select * from {jobs} where {who}name >= ?2 and name < ?3 and (name, job_id) > (?4, ?5) order by name, job_id
