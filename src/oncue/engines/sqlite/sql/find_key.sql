select k.key_id, k.key_hash, k.uid, u.user_id, k.role, k.created_at, k.expires_at, k.revoked_at, k.note, k.last_used_on
from keys k join users u on u.uid = k.uid where k.key_hash = ?
