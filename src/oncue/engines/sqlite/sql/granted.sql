-- Of the last so many the earliest, and the last of all.
select at, (select max(at) from grants where meter = ?1) from grants where meter = ?1 order by at limit ?3 offset ?2
