select version, spec, payload, until from job_versions where job_id = $1 and version < $2 order by job_id desc, version desc limit $3
