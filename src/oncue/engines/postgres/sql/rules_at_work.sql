-- Says which rules we go by, now and then, and waits for nobody who is saying the same; tells the newest that are newer.
with again as (
  update zone_rules set seen_at = $2
  where version in (select version from zone_rules where version = $1 and abs(seen_at - $2) > $3 for update skip locked)),
first as (
  insert into zone_rules select $1, $2 where not exists (select from zone_rules where version = $1) on conflict do nothing)
select max(version) from zone_rules where version > $1 and abs(seen_at - $2) <= $4
