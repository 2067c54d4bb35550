select lane from lanes where lane = any($1::bigint[]) order by lane for update skip locked
