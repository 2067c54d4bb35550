-- Attached: rows go there. A detached one was half dropped; the next maintenance, or a write to its time range, finishes that.
select p.parent, p.name, p.from_at, p.until_at, p.archived_rows, coalesce(not i.inhdetachpending, false) as attached
from pieces p left join pg_inherits i on i.inhrelid = to_regclass(p.name) order by p.until_at
