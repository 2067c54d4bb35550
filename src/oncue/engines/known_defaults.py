"""Whom each user wants told, as one process knows it: a copy that is at most ten seconds old."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from oncue.clock import Clock
from oncue.domain.ids import UserNumber
from oncue.domain.instants import MINUTE, SECOND, Duration, Instant
from oncue.domain.job import decode_spec
from oncue.domain.notices import notices
from oncue.domain.notify import NO_DEFAULT, NotifyDefault
from oncue.domain.run import Settlement
from oncue.engines.port import Notices

REFRESH: Final = Duration(10 * SECOND)
AGAIN: Final = Duration(MINUTE)  # read again what was put this long before: clocks differ, and transactions take time


class KnownDefaults:
    """Reads what changed. A run of a job and a user without anything to tell costs a look-up and a search."""

    def __init__(self, stored: Notices, clock: Clock, rate: int) -> None:
        self._stored = stored
        self._clock = clock
        self._rate = rate
        self._known: dict[UserNumber, NotifyDefault] = {}
        self._since = Instant(0)
        self._read_at: Instant | None = None  # by the monotonic clock

    @property
    def rate(self) -> int:
        return self._rate

    async def refresh(self) -> None:
        asked_at, now = self._clock.monotonic(), self._clock.now()
        if self._read_at is not None and asked_at - self._read_at < REFRESH:
            return
        for uid, default in (await self._stored.defaults(self._since)).items():
            self._known.pop(uid, None)
            if default != NO_DEFAULT:
                self._known[uid] = default
        self._since, self._read_at = Instant(now - AGAIN), asked_at

    def of(self, uid: UserNumber) -> NotifyDefault:
        return self._known.get(uid, NO_DEFAULT)

    def told(self, settlements: Sequence[Settlement]) -> Sequence[Settlement]:
        """Return the settlements with what is to be told of each; the same ones if there is nothing."""
        known = self._known
        asked = b'"notify":' in b"".join([one.run.spec for one in settlements])  # one search for all: 0.06 µs a run
        if not asked and not (known and any(one.run.uid in known for one in settlements)):
            return settlements
        return [self.told_of(one) for one in settlements]

    def told_of(self, settled: Settlement) -> Settlement:
        run = settled.run
        if run.uid not in self._known and b'"notify":' not in run.spec:
            return settled
        try:
            spec = decode_spec(run.spec)
        except ValueError:  # it cannot be read: the run fails for that, and nobody knows whom to tell
            return settled
        found = notices(run, spec, settled, self.of(run.uid), self._rate)
        return settled if found is None else replace(settled, notices=found)
