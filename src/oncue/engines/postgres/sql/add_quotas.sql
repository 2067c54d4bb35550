-- In lock order. The user's usage is not known yet: no bound is too high.
insert into quotas (uid) select uid from unnest($1::int[]) t(uid) order by uid on conflict do nothing
