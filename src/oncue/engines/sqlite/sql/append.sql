insert into tally (uid, class_id, what, bucket, n, at) values (?, ?, ?, ?, ?, ?)
