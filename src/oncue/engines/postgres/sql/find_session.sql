select k.*, u.user_id, s.created_at as opened_at, s.expires_at as ends_at
from key_sessions s join keys k using (key_id) join users u using (uid) where s.session_hash = $1
