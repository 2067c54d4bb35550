"""The worker: claims runs at their due instants and starts what the claim returned. Others run and settle them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from oncue.clock import Clock
from oncue.domain.ids import RunId, WorkerId
from oncue.domain.instants import SECOND, Duration
from oncue.domain.run import Claimed
from oncue.engines.hints import hint_due
from oncue.engines.port import Engine
from oncue.metrics.numbers import SILENT, Numbers
from oncue.metrics.table import CLAIM_MISSED, CLAIMED
from oncue.services.attempts import Attempts
from oncue.services.changes import Changes
from oncue.services.holdings import Holdings
from oncue.services.outcome_lines import OutcomeLines
from oncue.services.prefetch import Prefetch

BATCH = 450  # half of the slots for ordinary runs of a default worker, so that the other half can run
CLAIMS = 4  # one after the other: the runs of the last claim execute while the next is under way
IDLE = Duration(SECOND)


class Worker:
    name = "worker"

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        worker_id: WorkerId,
        prefetch: Prefetch,
        attempts: Attempts,
        changes: Changes,
        unwanted: Callable[[Claimed], None],
        holdings: Holdings,
        *,
        numbers: Numbers = SILENT,
    ) -> None:
        self._numbers = numbers
        self._engine = engine
        self._clock = clock
        self._worker_id = worker_id
        self._prefetch = prefetch
        self._attempts = attempts
        self._changes = changes
        self._unwanted = unwanted  # takes runs that came too late to start, to return them to the queue
        self._holdings = holdings
        self._lines = OutcomeLines()
        self.draining = False

    async def run_once(self) -> Duration:
        """Prefetch, claim as many due runs as fit, start them; return the time until the next instant."""
        if self.draining:
            return IDLE
        await self._prefetch.look()
        capacity = self._attempts.capacity
        for _ in range(CLAIMS):
            due = [] if self.draining else self._prefetch.take(capacity, BATCH)
            if not due:
                break
            claimed = await self._claim(due)
            self._start(claimed)
            await self._changes.of(run.uid for run in claimed)
        for line in await self._prefetch.crowded_out(capacity):
            if self._attempts.make_room(line.kind, line.size):
                line.go_first()
        for hint in hint_due(self._prefetch.to_pass_on(capacity), self._clock.now()):
            await self._engine.signals.pass_on(hint, self._worker_id)
        return self._prefetch.wait(capacity)

    def _start(self, runs: Sequence[Claimed]) -> None:
        if not self.draining:
            self._attempts.start(runs)
            self._lines.tell_late(runs)
            return
        for run in runs:
            self._unwanted(run)

    async def _claim(self, due: Sequence[RunId]) -> Sequence[Claimed]:
        running, worker_id = self._engine.running, self._worker_id
        claimed = await self._holdings.take(lambda now, until: running.claim(worker_id, due, now, until), self._found)
        self._numbers.add(CLAIM_MISSED, n=len(due) - len(claimed))
        self._numbers.add(CLAIMED, n=len(claimed))
        order = {run_id: place for place, run_id in enumerate(due)}
        return sorted(claimed, key=lambda run: order[run.run_id])  # an engine may return them in any order

    def _found(self, runs: Sequence[Claimed]) -> None:
        """Start runs of a claim whose answer was lost."""
        self._numbers.add(CLAIMED, n=len(runs))
        self._start(runs)
