-- From user to user by the index that begins with them, around once at most; a user with nothing due takes no turn.
-- Of each user only the first thousand runs are read, so that the cost does not grow with how many one user has.
-- Users without a turn are also returned, each once: the last of them tells how far the search came.
with recursive turn as (
  select f.uid, f.uid as first, 1 as seen, (f.wanted <= $5)::int as late from (
    (select uid, wanted from waiting where uid > $2 order by uid, wanted limit 1)
    union all
    (select uid, wanted from waiting where uid > 0 order by uid, wanted limit 1)
    limit 1) f
  union all
  select n.uid, t.first, t.seen + 1, t.late + (n.wanted <= $5)::int from turn t cross join lateral (
    (select uid, wanted from waiting where uid > t.uid order by uid, wanted limit 1)
    union all
    (select uid, wanted from waiting where uid > 0 order by uid, wanted limit 1)
    limit 1) n
  where n.uid <> t.first and t.late < $3::int and t.seen < $6::int)
select r.run_id, r.due, r.class_id, t.uid from turn t left join lateral (
  select w.run_id, w.due, w.class_id, w.wanted from (
    select run_id, due, class_id, held, wanted from waiting
    where uid = t.uid and wanted <= $5 order by wanted, run_id limit 1000) w
  where w.held = 0 and w.due <= $5 and w.class_id = any($1::int[])  -- held: 0 no
  order by w.wanted, w.run_id limit $4) r on true
order by t.seen, r.wanted, r.run_id
