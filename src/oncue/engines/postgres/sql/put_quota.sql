update quotas set jobs = $2, payload = $3, runs = $4 where uid = $1
