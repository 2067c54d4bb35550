"""The secrets that notices name: signing secrets, addresses of chats, the password of the mail server."""

from __future__ import annotations

import asyncio

from oncue.clock import Clock
from oncue.domain.errors import SecretMissing
from oncue.domain.ids import UserNumber
from oncue.domain.instants import Instant
from oncue.domain.secret_refs import SecretAccess
from oncue.engines.port import Accounts, Key
from oncue.executors.port import TaskFailed
from oncue.executors.secrets import SecretSource

INSTALLATION = SecretAccess("", shared=True)


class NoticeSecrets:
    """Finds a user's own secrets, and shared ones for as long as the user has a key with one of `roles`: an entry may
    be a default that was written years ago.
    """

    def __init__(self, accounts: Accounts, clock: Clock, source: SecretSource, roles: tuple[str, ...]) -> None:
        self._accounts = accounts
        self._clock = clock
        self._source = source
        self._roles = roles

    async def __call__(self, name: str, uid: UserNumber | None) -> str:
        access = INSTALLATION if uid is None else await self._access(uid)
        try:
            found = await asyncio.to_thread(self._source.resolve, [name], access)
        except SecretMissing as missing:
            raise TaskFailed("SecretMissing", str(missing), retry=False) from None
        except OSError as unreadable:
            raise TaskFailed("SecretUnreadable", f"secret {name!r} cannot be read: {unreadable.strerror}") from None
        return found[name]

    async def _access(self, uid: UserNumber) -> SecretAccess:
        keys = [key for key in await self._accounts.keys() if key.uid == uid]
        now = self._clock.now()
        shared = any(key.role in self._roles and _is_valid(key, now) for key in keys)
        return SecretAccess(keys[0].user_id if keys else "", shared)


def _is_valid(key: Key, now: Instant) -> bool:
    return key.revoked_at is None and (key.expires_at is None or now < key.expires_at)
