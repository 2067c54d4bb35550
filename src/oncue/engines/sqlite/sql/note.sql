-- A later change starts again with the first run, and what an earlier one requested is still to be done.
insert into unfinished (job_id, since, stops, drop_before, purge) values (?, ?, ?, ?, ?)
on conflict do update set since = max(since, excluded.since), stops = 1, run_id = null,
  drop_before = max(coalesce(drop_before, excluded.drop_before), coalesce(excluded.drop_before, drop_before)),
  purge = purge or excluded.purge
