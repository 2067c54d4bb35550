insert into archived (table_name, until_at, last_id) values (?1, ?2, ?3)
on conflict do update set until_at = excluded.until_at, last_id = excluded.last_id
