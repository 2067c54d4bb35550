-- Waits for whoever grants, who waits for nobody. In order, as whoever lets runs wait for their rates.
select meter from meters where meter in (select meter from grants where at > $1) order by meter for update
