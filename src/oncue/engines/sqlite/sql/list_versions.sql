select version, spec, payload, until from job_versions where job_id = ? and version < ? order by version desc limit ?
