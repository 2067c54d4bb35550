update agenda set planned = greatest(0, planned - $2) where job_id = $1
