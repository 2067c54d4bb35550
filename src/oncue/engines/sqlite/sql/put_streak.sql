insert into streaks (job_id, since, runs) values (?1, ?2, ?3) on conflict do update set since = ?2, runs = ?3
