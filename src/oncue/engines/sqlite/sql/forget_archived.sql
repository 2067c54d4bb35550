-- A row that came after its day was archived has a higher id: it stays, and is archived later.
delete from {table} where {key} in (
  select t.{key} from {table} t join archived a on a.table_name = '{table}'
  where t.at < ?1 and t.at < a.until_at and t.{key} <= a.last_id limit ?2)
