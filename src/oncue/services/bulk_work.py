"""Work through bulks: actions on many objects, a pass of a hundred at a time.

All schedulers are equal: each takes the bulk that has waited longest, does one pass and gives it back. What a pass
found is stored before it acts, and how it went after that. So whoever takes over from a process that died acts on the
same objects again, and each act takes effect once: see `bulk_acts`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from uuid import UUID

from msgspec.structs import replace

from oncue.clock import Clock
from oncue.domain.instants import MILLISECOND, SECOND, Duration
from oncue.engines.bulk_values import MOST_REASONS, Bulk, BulkState, Progress, Reason
from oncue.engines.bulk_walk import BulkWalk
from oncue.engines.port import Engine
from oncue.services.bulk_acts import BulkActs, Follow

PASS = 100  # objects
TOGETHER = 8  # objects acted on at the same time
LEASE = Duration(10 * SECOND)  # a bulk of a process that died is taken over after this
POLL_INTERVAL = Duration(SECOND)
MIN_PAUSE = Duration(10 * MILLISECOND)  # between two passes, so that other writers get their turn
NOT_ALLOWED = "the API key that started it was revoked or has expired"


class BulkWork:
    name = "bulk"

    def __init__(self, engine: Engine, clock: Clock, follow: Follow) -> None:
        self._engine = engine
        self._clock = clock
        self._follow = follow
        self._walk = BulkWalk(engine, clock)

    async def run_once(self) -> Duration:
        taken = await self._engine.bulks.take(self._clock.now(), LEASE)
        if taken is None:
            return POLL_INTERVAL
        if taken.allowed:
            await self._pass(taken.bulk)
        else:
            now, progress = self._clock.now(), taken.bulk.progress
            await self._engine.bulks.advance(taken.bulk, progress, now, state=BulkState.FAILED, why=NOT_ALLOWED)
        return MIN_PAUSE

    async def _pass(self, bulk: Bulk) -> None:
        progress = bulk.progress
        if not progress.pending and progress.more:
            found = await self._walk.look(bulk, PASS)
            progress = replace(found.progress, pending=found.ids)
        if progress.pending:
            if not await self._engine.bulks.advance(bulk, progress, self._clock.now(), LEASE):
                return  # it was stopped
            progress = await self._act(bulk, progress)
        state = BulkState.RUNNING if progress.more else BulkState.FINISHED
        if not await self._engine.bulks.advance(bulk, progress, self._clock.now(), state=state):
            await self._engine.bulks.record(bulk, progress)  # it was stopped meanwhile

    async def _act(self, bulk: Bulk, progress: Progress) -> Progress:
        acts, reasons = BulkActs(self._engine, self._clock, bulk, self._follow), list[Reason]()
        pending, renewed_at = progress.pending, self._clock.monotonic()
        for start in range(0, len(pending), TOGETHER):
            if self._clock.monotonic() - renewed_at > LEASE // 3:
                renewed_at = self._clock.monotonic()
                await self._engine.bulks.advance(bulk, progress, self._clock.now(), LEASE)
            together = pending[start : start + TOGETHER]
            answers = await asyncio.gather(*map(acts.on, together))
            reasons += _reasons(zip(together, answers, strict=True))
        await self._engine.signals.send(list(acts.hints))
        return replace(
            progress,
            pending=(),
            done=progress.done + len(pending) - len(reasons),
            refused=progress.refused + len(reasons),
            reasons=(*progress.reasons, *reasons)[:MOST_REASONS],
        )


def _reasons(answers: Iterable[tuple[UUID, str | None]]) -> list[Reason]:
    return [Reason(one, why) for one, why in answers if why is not None]
