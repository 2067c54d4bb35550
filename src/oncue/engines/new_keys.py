"""New API keys, whoever they are for."""

from __future__ import annotations

import secrets

from oncue.clock import Clock
from oncue.domain.ids import KeyId, uuid7
from oncue.domain.keys import ENTROPY, key_hash, make_key
from oncue.engines.port import Engine, Key, Role


async def new_key(engine: Engine, clock: Clock, user_id: str, role: Role) -> tuple[str, Key]:
    """The secret, which nobody can read again, and the key as it is to be stored. The user is made when new."""
    now = clock.now()
    text = make_key(secrets.token_bytes(ENTROPY))
    uid = await engine.accounts.user(user_id, now)
    return text, Key(KeyId(uuid7(now, secrets.token_bytes(8))), key_hash(text), uid, user_id, role, now)
