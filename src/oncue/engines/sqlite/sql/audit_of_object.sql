select at, deed_id, uid, key_id, action, object_id, detail, address from audit
where object_id = :object_id and (at, deed_id) < (:at, :deed_id) and at >= :since order by at desc, deed_id desc limit :limit
