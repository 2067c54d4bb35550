select r.run_id, r.job_id, (select task from classes c where c.class_id = r.class_id), r.wanted from runs r
where expires_at < ?1 and token = 0 and not exists (select 1 from running x where x.run_id = r.run_id) order by expires_at limit ?2
