"""Decides what becomes of occurrences that are due while a run of their job is in the way: at the due instant."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from oncue.clock import Clock
from oncue.domain.ids import RunId
from oncue.domain.instants import MILLISECOND, SECOND, Duration, Instant
from oncue.domain.overlap import Displacement, HeldRun, Withdrawal, decide
from oncue.engines.hints import after_stopping
from oncue.engines.port import Engine
from oncue.engines.refusals import Refusal, apart

# Held runs are looked at this much ahead, and at least this often: so the instant of each is known before it comes.
AHEAD = Duration(SECOND)
APART = Duration(50 * MILLISECOND)  # between two passes, however many instants lie close together
FEWEST, MOST = 500, 20_000  # held runs in one look
WITHDRAWN_AT_ONCE = 1_000  # in one transaction

log = structlog.get_logger()


class Overlap:
    name = "overlap"

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self._limit = FEWEST

    async def run_once(self) -> Duration:
        now = self._clock.now()
        held = await self._engine.planning.overdue(self._limit, Instant(now + AHEAD))
        # Those that only wait come first, being the oldest: if they fill a look, the next one reaches further.
        reach_further = len(held) == self._limit < MOST
        self._limit = min(max(FEWEST, 2 * len(held)), MOST)
        due = [run for run in held if run.wanted <= now]
        decisions = list(decide(due, now))
        await self._withdraw([one for one in decisions if isinstance(one, Withdrawal)], now)
        for going in dict.fromkeys(one.going for one in decisions if isinstance(one, Displacement)):
            await self._displace(going, now)
        return APART if reach_further else _until_next(held[len(due) :], now)

    async def _withdraw(self, withdrawals: Sequence[Withdrawal], now: Instant) -> None:
        async def withdraw(some: Sequence[Withdrawal]) -> frozenset[RunId]:
            return await self._engine.planning.withdraw(some, now)

        for first in range(0, len(withdrawals), WITHDRAWN_AT_ONCE):
            async for some, answer in apart(withdrawals[first : first + WITHDRAWN_AT_ONCE], withdraw):
                if isinstance(answer, Refusal):
                    log.error("this run cannot be taken back", run_id=str(some[0].run_id), exc_info=answer.why)

    async def _displace(self, going: RunId, now: Instant) -> None:
        """A repeat is harmless, and tells the worker again."""
        answer = await self._engine.running.cancel(None, going, now)
        if answer is not None:
            await self._engine.signals.send(after_stopping(answer))


def _until_next(coming: Sequence[HeldRun], now: Instant) -> Duration:
    """`coming` are in order of `wanted`."""
    return Duration(max(APART, coming[0].wanted - now)) if coming else AHEAD
