update quotas set jobs = $2, payload = $3 where uid = $1
