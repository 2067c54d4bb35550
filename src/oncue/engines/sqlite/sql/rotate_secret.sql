insert into webhook_secrets (uid, url_hash, generation, rotated_at) values (?1, ?2, 1, ?3)
on conflict do update set generation = generation + 1, rotated_at = ?3 returning generation, rotated_at
