select uid, user_id, asked_at, place from forgetting order by uid
