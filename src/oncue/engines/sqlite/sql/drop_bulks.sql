delete from bulks where bulk_id in (select bulk_id from bulks where ended_at < ? order by ended_at limit ?) returning 1
