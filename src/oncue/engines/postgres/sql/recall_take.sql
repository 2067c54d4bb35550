-- Waits for the transaction that grants, which waits for no other. In order, as by transactions that make runs wait for rates.
select meter from meters where meter in (select meter from grants where at > $1) order by meter for update
