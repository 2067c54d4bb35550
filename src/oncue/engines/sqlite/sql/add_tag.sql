insert into job_tags (uid, tag, job_id) values (?, ?, ?) on conflict do nothing
