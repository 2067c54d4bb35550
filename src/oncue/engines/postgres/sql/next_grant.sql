select coalesce(min(next_at), $1) as next_at, coalesce(min(check_at), $1) as check_at from meters
