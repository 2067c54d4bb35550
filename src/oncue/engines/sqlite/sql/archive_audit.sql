select at, deed_id, uid, key_id, action, object_id, detail, address from audit
where (at, deed_id) > (?1, ?2) and at < ?3 order by at, deed_id limit ?4
