delete from bulks where bulk_id in (select bulk_id from bulks where ended_at < $1 order by ended_at limit $2) returning 1
