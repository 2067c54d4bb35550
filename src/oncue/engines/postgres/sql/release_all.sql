update waiting set held = held & ~$2::smallint where job_id = $1 and job_id <> run_id and held & $2::smallint <> 0
