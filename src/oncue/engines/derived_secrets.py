"""The derived secrets of webhooks, by the master key and how often each was replaced."""

from __future__ import annotations

import asyncio

from oncue.clock import Clock
from oncue.domain.ids import UserNumber
from oncue.domain.signing import derived_secret, generations, url_hash
from oncue.engines.port import Notices
from oncue.master_key import master_key
from oncue.settings import Settings


class DerivedSecrets:
    """Reads the key when it is needed first. Invalid: its file cannot be used."""

    def __init__(self, stored: Notices, clock: Clock, settings: Settings) -> None:
        self._stored = stored
        self._clock = clock
        self._settings = settings
        self._master: bytes | None = None

    async def __call__(self, uid: UserNumber, url: str) -> list[str]:
        """Return the secrets that sign for a user's URL now, newest first."""
        if self._master is None:
            self._master = await asyncio.to_thread(master_key, self._settings)
        found = await self._stored.generation(uid, url_hash(url))
        return [
            derived_secret(self._master, uid, url, number)
            for number in generations(found.number, found.rotated_at, self._clock.now())
        ]
