-- Locks meters in order: the last lock of any transaction but the one that grants, which waits for no other.
-- 0: as it is defined, and it is, as long as a run has it. A redefined meter is checked at once.
insert into meters (meter, starts, per, free_at, next_at)
select m, s, p, 0, d from unnest($1::bigint[], $2::int[], $3::bigint[], $4::bigint[]) as t(m, s, p, d)
where s > 0 or exists (select from meters k where k.meter = m) order by m
on conflict (meter) do update set
  starts = coalesce(nullif(excluded.starts, 0), meters.starts), per = coalesce(nullif(excluded.per, 0), meters.per),
  (free_at, next_at) = (
    select meters.free_at, least(meters.next_at, greatest(excluded.next_at, meters.free_at))
    where (excluded.starts, excluded.per) in ((0, 0), (meters.starts, meters.per))
    union all select 0, 0 limit 1)
