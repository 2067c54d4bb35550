-- A later change starts again with the first run, and what an earlier one requested is still to be done.
insert into unfinished as u (job_id, since, stops, drop_before, purge) values ($1, $2, $3, $4, $5)
on conflict (job_id) do update set since = greatest(u.since, excluded.since), stops = true, wanted = null, run_id = null,
  drop_before = greatest(u.drop_before, excluded.drop_before), purge = u.purge or excluded.purge
