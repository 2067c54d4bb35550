-- The earliest of the meter's last starts that count, and the last of all.
select at, (select max(at) from grants where meter = ?1) from grants where meter = ?1 order by at limit ?3 offset ?2
