insert into webhook_secrets as s (uid, url_hash, generation, rotated_at) values ($1, $2, 1, $3)
on conflict (uid, url_hash) do update set generation = s.generation + 1, rotated_at = excluded.rotated_at
returning generation, rotated_at
