-- Writes now and then which rules we use, without waiting for a scheduler that writes the same; returns the newest newer ones.
with again as (
  update zone_rules set seen_at = $2
  where version in (select version from zone_rules where version = $1 and abs(seen_at - $2) > $3 for update skip locked)),
first as (
  insert into zone_rules select $1, $2 where not exists (select from zone_rules where version = $1) on conflict do nothing)
select max(version) from zone_rules where version > $1 and abs(seen_at - $2) <= $4
