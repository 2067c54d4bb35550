insert into repeats_{generation} (uid, key_hash, body_hash, made) values (?, ?, ?, ?) on conflict do nothing
