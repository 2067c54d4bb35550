-- Walks as in list_live, in the order of `wanted`: what nothing holds and was not tried yet is due then.
select w.class_id, w.wanted - w.wanted % $4::bigint, count(*) filter (where w.fits), max(w.wanted), count(*)
from (
  select class_id, wanted, held = 0 and class_id in (select unnest($1::int[])) as fits from waiting  -- held: 0 no
  where uid = any(array[$6::int]) and wanted >= $2 and wanted < $3 order by uid, wanted, run_id limit (select $5::int)) w
group by 1, 2
