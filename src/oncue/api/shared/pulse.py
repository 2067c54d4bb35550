"""The numbers of the last second, for event streams: computed once for all streams of a user or of administrators."""

from __future__ import annotations

from typing import Any

from oncue.clock import Clock
from oncue.domain.buckets import LAG, quantile
from oncue.domain.ids import UserNumber
from oncue.domain.instants import MINUTE, SECOND, Instant, rfc3339
from oncue.engines.gauges import Pulse
from oncue.engines.port import Count, Engine, Measure

# Attempts that ended, by how. Runs that were cancelled or expired may have had none.
FAILED = (Count.RETRIED, Count.LOST, Count.DEAD)
COUNTED = 1_000  # due runs


class Pulses:
    """Remembers the last reading of each user, to compute rates."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self._last: dict[UserNumber | None, tuple[Instant, Pulse]] = {}

    def forget(self, uid: UserNumber | None) -> None:
        self._last.pop(uid, None)

    async def read(self, uid: UserNumber | None) -> dict[str, Any]:
        """Return the numbers of one user, or of all. Rates are null the first time."""
        at, now = self._clock.monotonic(), self._clock.now()
        found = await self._engine.history.pulse(uid, now, COUNTED)
        before = self._last.get(uid)
        self._last[uid] = (at, found)
        lags = [] if uid is not None else await self._lags(now)
        return {
            "at": rfc3339(now),
            **_rates(None if before is None else before[1], found, 0 if before is None else at - before[0]),
            "lag_p50_ms": _ms(lags, 0.5),
            "lag_p99_ms": _ms(lags, 0.99),
            "running": found.running,
            "due": found.due,
            "more": found.more,
            "dead_letters": max(0, found.open_letters),
        }

    async def _lags(self, now: Instant) -> list[int]:
        """Of attempts that ended in this minute or the one before."""
        since = Instant(now - now % MINUTE - MINUTE)
        points = await self._engine.history.series(Measure.LAG, since, Instant(now + 1), MINUTE)
        return [sum(bucket) for bucket in zip(*(point.counts for point in points), strict=True)]


def _rates(before: Pulse | None, after: Pulse, passed: int) -> dict[str, float | None]:
    names = ("started_per_second", "succeeded_per_second", "failed_per_second", "dead_per_second")
    if before is None or passed <= 0:
        return dict.fromkeys(names)
    succeeded, dead = _more(before, after, Count.SUCCEEDED), _more(before, after, Count.DEAD)
    failed = _more(before, after, *FAILED)
    started = max(0, after.running - before.running + succeeded + failed)
    rates = (started, succeeded, failed, dead)
    return {name: round(n * SECOND / passed, 3) for name, n in zip(names, rates, strict=True)}


def _more(before: Pulse, after: Pulse, *what: Count) -> int:
    return max(0, sum(after.counts.get(one, 0) - before.counts.get(one, 0) for one in what))


def _ms(lags: list[int], share: float) -> float | None:
    found = quantile(LAG, lags, share) if lags else None
    return None if found is None else round(found * 1_000, 3)
