insert into objects (key, uid, owner_id, kind, size, made_at, gone_at)
select key, uid, owner_id, kind, size, $6, $7 from unnest($1::text[], $2::int[], $3::uuid[], $4::text[], $5::bigint[])
  as given (key, uid, owner_id, kind, size)
on conflict do nothing
