update tended set at = least($1::bigint, coalesce(at + $2::bigint, $1::bigint)) returning at
