select w.run_id, w.job_id, w.wanted, w.lane, w.gate, c.task
from (select * from waiting where expires_at < $1 and token = 0 order by expires_at limit $2) w join classes c using (class_id)
order by w.expires_at
