update bulks set state = $3, ended_at = $4 where bulk_id = $1 and ($2::int is null or uid = $2) and ended_at is null returning 1
