-- The next pass computes again what there is to grant.
with counted as (
  update grants set at = $3 where meter = any($1::bigint[]) and at > $2 returning meter),
looked_at as (
  update meters m set free_at = 0, next_at = 0, check_at = $3, given = given - t.gone
  from unnest($1::bigint[], $4::int[]) t(meter, gone) where m.meter = t.meter)
select count(*) as n from counted
