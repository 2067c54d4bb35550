select uid, jobs, payload, runs from quotas where uid = any($1::int[]) order by uid for update
