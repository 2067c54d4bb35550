"""Hint to watchers that runs of a user changed: now and then, never once for each run."""

from __future__ import annotations

from collections.abc import Iterable

from oncue.clock import Clock
from oncue.domain.ids import UserNumber
from oncue.domain.instants import MILLISECOND, Duration, Instant
from oncue.engines.port import Hint, Signals, Topic

PAUSE = Duration(200 * MILLISECOND)


class Changes:
    """Sends at most five times a second. Changes in between go with the next hint; watchers also poll."""

    def __init__(self, signals: Signals, clock: Clock) -> None:
        self._signals = signals
        self._clock = clock
        self._users: set[UserNumber] = set()
        self._quiet_until = Instant(0)

    async def of(self, users: Iterable[UserNumber]) -> None:
        self._users.update(users)
        now = self._clock.monotonic()
        if self._users and now >= self._quiet_until:
            self._quiet_until = Instant(now + PAUSE)
            told, self._users = sorted(self._users), set()
            await self._signals.send([Hint(Topic.CHANGED, target=str(uid)) for uid in told])
