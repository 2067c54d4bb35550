select s.session_hash, s.key_id, s.created_at, s.expires_at,
  k.key_id, k.key_hash, k.uid, u.user_id, k.role, k.created_at, k.expires_at, k.revoked_at, k.note, k.last_used_on
from key_sessions s join keys k on k.key_id = s.key_id join users u on u.uid = k.uid where s.session_hash = ?
