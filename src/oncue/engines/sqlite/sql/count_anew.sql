-- Starts that nobody has made use of count as of now. Whoever was claimed meanwhile has another token.
update grants set at = ?2 where meter = ?1 and at >= ?4 and at <= ?3 and exists (
  select 1 from runs r where r.run_id = grants.run_id and r.token = grants.token and r.held = 0
    and not exists (select 1 from running x where x.run_id = r.run_id))
