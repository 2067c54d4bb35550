"""Writing down what attempts came to, many at a time."""

from __future__ import annotations

import structlog

from oncue.clock import Clock
from oncue.domain.ids import WorkerId
from oncue.domain.instants import MILLISECOND, SECOND, Duration, Instant
from oncue.domain.run import Claimed, Settlement, State
from oncue.engines.port import Engine, Hint, Topic
from oncue.services.attempts import End
from oncue.services.changes import Changes
from oncue.services.lookout import Lookout

BATCH = 1_000
FEW = 50  # so few wait a moment for company
LINGER = Duration(2 * MILLISECOND)
IDLE = Duration(5 * SECOND)

log = structlog.get_logger()


class Settling:
    name = "settling"

    def __init__(
        self, engine: Engine, clock: Clock, worker_id: WorkerId, lookout: Lookout, linger: Duration = LINGER
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._worker_id = worker_id
        self._lookout = lookout
        self._changes = Changes(engine.signals, clock)
        self._linger = linger
        self._ended: list[Settlement] = []
        self._back: list[Claimed] = []

    def __len__(self) -> int:
        return len(self._ended) + len(self._back)

    def add(self, end: End) -> None:
        if isinstance(end, Settlement):
            self._ended.append(end)
        else:
            self._back.append(end)

    async def run_once(self) -> Duration:
        if not len(self):
            return IDLE
        if self._linger and len(self) < FEW:
            await self._clock.sleep(self._linger)
        if self._back:
            await self._hand_back()
        if self._ended:
            await self._settle()
        return Duration(0) if len(self) else IDLE

    async def _settle(self) -> None:
        """A batch stays here until the store has answered: after an outage it is written again, and fenced again."""
        batch = self._ended[:BATCH]
        answer = await self._engine.running.settle(self._worker_id, batch, self._clock.now())
        del self._ended[: len(batch)]
        if answer.lost:
            log.warning("results came too late, and are refused: the runs are others' by now", runs=len(answer.lost))
        await self._tell(batch)
        await self._changes.of(done.run.uid for done in batch)

    async def _hand_back(self) -> None:
        batch = self._back[:BATCH]
        await self._engine.running.hand_back(self._worker_id, batch, self._clock.now())
        del self._back[: len(batch)]
        await self._engine.signals.send([Hint(Topic.RUNS, due=min(run.due for run in batch))])
        await self._changes.of(run.uid for run in batch)

    async def _tell(self, batch: list[Settlement]) -> None:
        """Whoever looks ahead should know: something is tried again soon, or a lane let its next one in."""
        if any(done.run.lane is not None or done.run.gate is not None for done in batch):
            hint = Hint(Topic.RUNS)
        else:
            again = [done.due for done in batch if done.state is State.WAITING and done.due is not None]
            if not again:
                return
            hint = Hint(Topic.RUNS, due=Instant(min(again)))
        self._lookout.ask(hint.due)
        await self._engine.signals.send([hint])
