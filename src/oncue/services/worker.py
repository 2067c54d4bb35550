"""The worker: claims runs at their due instants and starts what the claim returned. Others run and settle them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from oncue.clock import Clock
from oncue.domain.ids import RunId, WorkerId
from oncue.domain.instants import SECOND, Duration, Instant
from oncue.domain.run import Claimed
from oncue.engines.hints import hint_due
from oncue.engines.port import Engine
from oncue.metrics.numbers import SILENT, Numbers
from oncue.metrics.table import CLAIM_MISSED, CLAIMED
from oncue.services.attempts import Attempts
from oncue.services.changes import Changes
from oncue.services.outcome_lines import OutcomeLines
from oncue.services.prefetch import Prefetch

BATCH = 450  # half of the slots for ordinary runs of a default worker, so that the other half can run
CLAIMS = 4  # one after the other: the runs of the last claim execute while the next is under way
ASK_AGAIN = Duration(SECOND)


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
        *,
        lease: Duration,
        store_timeout: Duration,
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
        self._too_long = Duration(lease // 3)
        self._may_come_true = Duration(2 * store_timeout)  # the store itself gives up a statement after one
        self._doubts: dict[RunId, Instant] = {}  # claims whose answer was lost, and until when they may apply
        self._ask_at = Instant(0)
        self._claiming = False
        self._lines = OutcomeLines()
        self.draining = False

    @property
    def in_doubt(self) -> int:
        """The number of runs whose claim had no answer."""
        return len(self._doubts)

    @property
    def unsure(self) -> bool:
        """Whether this worker may own runs that it does not know of yet."""
        return self._claiming or bool(self._doubts)

    async def run_once(self) -> Duration:
        """Prefetch, claim as many due runs as fit, start them; return the time until the next instant."""
        if self._doubts and self._clock.monotonic() >= self._ask_at:
            self._start(await self._resolve_doubts())
        if self.draining:
            return ASK_AGAIN
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
        wait = self._prefetch.wait(capacity)
        return min(wait, ASK_AGAIN) if self._doubts else wait

    def _start(self, runs: Sequence[Claimed]) -> None:
        if not self.draining:
            self._attempts.start(runs)
            self._lines.tell_late(runs)
            return
        for run in runs:
            self._unwanted(run)

    async def _claim(self, due: Sequence[RunId]) -> Sequence[Claimed]:
        asked_at = self._clock.monotonic()
        self._claiming = True
        try:
            claimed = await self._engine.running.claim(self._worker_id, due, self._clock.now())
        except BaseException:
            self._doubt(due)
            raise
        finally:
            self._claiming = False
        self._numbers.add(CLAIM_MISSED, n=len(due) - len(claimed))
        if self._clock.monotonic() - asked_at > self._too_long:  # we were asleep: the claim may be void by now
            self._doubt([run.run_id for run in claimed])
            return await self._resolve_doubts()
        self._numbers.add(CLAIMED, n=len(claimed))
        for run in claimed:
            self._doubts.pop(run.run_id, None)
        order = {run_id: place for place, run_id in enumerate(due)}
        return sorted(claimed, key=lambda run: order[run.run_id])  # an engine may return them in any order

    def _doubt(self, run_ids: Sequence[RunId]) -> None:
        until = Instant(self._clock.monotonic() + self._may_come_true)
        self._doubts.update(dict.fromkeys(run_ids, until))
        self._ask_at = Instant(0)

    async def _resolve_doubts(self) -> Sequence[Claimed]:
        """Return the doubtful runs that we own after all. Ask again about the others while their claims may apply."""
        asked_at = self._clock.monotonic()
        held = await self._engine.running.held_by(self._worker_id, list(self._doubts))
        if self._clock.monotonic() - asked_at > self._too_long:
            return ()  # asleep again, and the answer is old: ask again
        self._numbers.add(CLAIMED, n=len(held))
        for run in held:
            del self._doubts[run.run_id]
        self._doubts = {run_id: until for run_id, until in self._doubts.items() if until > asked_at}
        self._ask_at = Instant(asked_at + ASK_AGAIN)
        return held
