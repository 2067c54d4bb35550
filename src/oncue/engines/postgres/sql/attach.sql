update history set result = $4 where run_id = $1 and token = $2 and result = $3 returning run_id
