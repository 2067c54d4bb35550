-- A redefined meter is checked at once.
insert into meters (meter, starts, per, free_at, next_at) values (?1, ?2, ?3, 0, ?4)
on conflict do update set starts = ?2, per = ?3,
  free_at = iif((starts, per) = (?2, ?3), free_at, 0),
  next_at = iif((starts, per) = (?2, ?3), min(next_at, max(?4, free_at)), 0)
