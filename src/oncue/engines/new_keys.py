"""New API keys, for any user."""

from __future__ import annotations

import secrets

from oncue.clock import Clock
from oncue.domain.ids import KeyId, uuid7
from oncue.domain.instants import Duration, Instant
from oncue.domain.keys import ENTROPY, key_hash, make_key
from oncue.engines.port import Engine, Key, Role


async def new_key(
    engine: Engine,
    clock: Clock,
    user_id: str,
    role: Role,
    note: str | None = None,
    expires_in: Duration | None = None,
) -> tuple[str, Key]:
    """Return the secret, which is shown only once, and the key to store. Creates the user when new."""
    now = clock.now()
    text = make_key(secrets.token_bytes(ENTROPY))
    uid = await engine.accounts.user(user_id, now)
    key_id = KeyId(uuid7(now, secrets.token_bytes(8)))
    expires_at = None if expires_in is None else Instant(now + expires_in)
    return text, Key(key_id, key_hash(text), uid, user_id, role, now, expires_at, note=note)
