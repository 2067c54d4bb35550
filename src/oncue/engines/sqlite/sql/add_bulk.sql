insert into bulks (bulk_id, uid, key_id, role, created_at, ordered, total, state, progress, turn, free_at)
select ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 0, ?5
where (select count(*) from (select 1 from bulks where uid = ?2 and ended_at is null limit ?10)) < ?10
on conflict do nothing
