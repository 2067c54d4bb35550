insert into users (user_id, created_at) values (?, ?) on conflict do nothing
