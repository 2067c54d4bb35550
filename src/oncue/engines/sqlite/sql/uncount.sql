update agenda set planned = max(0, planned - ?) where job_id = ?
