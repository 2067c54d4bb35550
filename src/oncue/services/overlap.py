"""Decide about occurrences that are due while a run of their job blocks them: at the due instant."""

from __future__ import annotations

from collections.abc import Sequence

from oncue.clock import Clock
from oncue.domain.ids import RunId
from oncue.domain.instants import MILLISECOND, SECOND, Duration, Instant
from oncue.domain.overlap import Displacement, HeldRun, Withdrawal, decide
from oncue.engines.hints import after_stopping
from oncue.engines.port import Engine
from oncue.engines.refusals import Refusal, apart
from oncue.log import log
from oncue.metrics.numbers import SILENT, Numbers
from oncue.metrics.table import WITHDRAWN

# Held runs are read this much ahead, and at least this often: so each due instant is known before it comes.
AHEAD = Duration(SECOND)
MIN_PAUSE = Duration(50 * MILLISECOND)  # between two passes, however close together the instants are
MIN_HELD_READ, MAX_HELD_READ = 500, 20_000  # held runs in one read
WITHDRAWN_AT_ONCE = 1_000  # in one transaction


class Overlap:
    name = "overlap"

    def __init__(self, engine: Engine, clock: Clock, numbers: Numbers = SILENT) -> None:
        self._engine = engine
        self._numbers = numbers
        self._clock = clock
        self._limit = MIN_HELD_READ

    async def run_once(self) -> Duration:
        now = self._clock.now()
        held = await self._engine.planning.overdue(self._limit, Instant(now + AHEAD))
        # Runs that only wait come first, being the oldest: if they fill a read, the next one reads more.
        reach_further = len(held) == self._limit < MAX_HELD_READ
        self._limit = min(max(MIN_HELD_READ, 2 * len(held)), MAX_HELD_READ)
        due = [run for run in held if run.wanted <= now]
        decisions = list(decide(due, now))
        await self._withdraw([one for one in decisions if isinstance(one, Withdrawal)], now)
        for going in dict.fromkeys(one.going for one in decisions if isinstance(one, Displacement)):
            await self._displace(going, now)
        return MIN_PAUSE if reach_further else _until_next(held[len(due) :], now)

    async def _withdraw(self, withdrawals: Sequence[Withdrawal], now: Instant) -> None:
        async def withdraw(some: Sequence[Withdrawal]) -> frozenset[RunId]:
            return await self._engine.planning.withdraw(some, now)

        for first in range(0, len(withdrawals), WITHDRAWN_AT_ONCE):
            async for some, answer in apart(withdrawals[first : first + WITHDRAWN_AT_ONCE], withdraw):
                if isinstance(answer, Refusal):
                    log.error(
                        "A run could not be withdrawn",
                        kind="withdraw_refused",
                        run_id=str(some[0].run_id),
                        exc_info=answer.why,
                    )
                else:
                    self._numbers.add(WITHDRAWN, n=len(answer))

    async def _displace(self, going: RunId, now: Instant) -> None:
        """Cancel the active run. Repeating it is harmless, and notifies the worker again."""
        answer = await self._engine.running.cancel(None, going, now)
        if answer is not None:
            await self._engine.signals.send(after_stopping(answer))


def _until_next(coming: Sequence[HeldRun], now: Instant) -> Duration:
    """How long until the next held run is due; `coming` is in order of `wanted`."""
    return Duration(max(MIN_PAUSE, coming[0].wanted - now)) if coming else AHEAD
