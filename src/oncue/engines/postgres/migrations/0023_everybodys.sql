-- What administrators list: everybody's, in one order, whatever the number of users.
create index jobs_status on jobs (status, job_id);
create index jobs_names on jobs (name, job_id) where name is not null;
create index waiting_names on waiting (name, run_id) where name is not null;
create index job_tags_tag on job_tags (tag, job_id);
