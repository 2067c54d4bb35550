-- Starts that no worker has used yet. A run that was claimed meanwhile has another token.
select g.rowid, g.run_id, g.due from grants g where g.meter = ?1 and g.at >= ?2 and g.at <= ?3 and exists (
  select 1 from runs r where r.run_id = g.run_id and r.token = g.token and r.held & 8 = 0  -- held: 8 rate
    and not exists (select 1 from running x where x.run_id = r.run_id))
