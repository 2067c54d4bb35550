insert into job_tags values (?, ?, ?) on conflict do nothing
