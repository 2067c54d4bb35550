"""A worker's loops, put together: only this file knows how they depend on each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random

from oncue.clock import Clock
from oncue.domain.ids import RunId, WorkerId
from oncue.domain.instants import Duration, Instant
from oncue.domain.placement import Offer
from oncue.domain.run import Claimed, Settlement
from oncue.engines.known_defaults import KnownDefaults
from oncue.engines.port import Engine, Hint, Topic
from oncue.metrics import table
from oncue.metrics.metric import Labels
from oncue.metrics.numbers import SILENT, Numbers
from oncue.services.attempts import Attempts, End, Stop
from oncue.services.cancel_inbox import CancelInbox
from oncue.services.capacity import Capacity
from oncue.services.execution import Execution
from oncue.services.holdings import Holdings
from oncue.services.large_results import LargeResults
from oncue.services.load_meter import LoadMeter
from oncue.services.loop import Loop
from oncue.services.prefetch import Prefetch
from oncue.services.recent_ends import RecentEnds
from oncue.services.reporting import Reporting
from oncue.services.run_numbers import RunNumbers
from oncue.services.settling import LINGER, Settling
from oncue.services.spool import Spool
from oncue.services.submitting import Submitting
from oncue.services.task_output import TaskOutput
from oncue.services.worker import Worker
from oncue.settings import Settings
from oncue.storage.open import open_storage
from oncue.tasks import Isolation
from oncue.tracing.port import Tracing

SPOOL = "spool"  # the folder in the data folder


class WorkerLoops:
    """Each member has a `run_once`; `loops` runs them, and wakes one when another has created work for it."""

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        settings: Settings,
        worker_id: WorkerId,
        offer: Offer,
        execution: Execution,
        *,
        chance: Random,
        linger: Duration = LINGER,
        numbers: Numbers = SILENT,
        tracing: Tracing | None = None,
    ) -> None:
        self.worker_id, self._counted = worker_id, RunNumbers(numbers)
        self.prefetch = Prefetch(engine, clock, execution.tasks, offer, numbers)
        capacity = Capacity(
            places(settings), offer.resources, settings.reserved_for_high, settings.max_abandoned_threads
        )
        self.load = LoadMeter(clock, capacity)
        defaults = KnownDefaults(engine.notices, clock, settings.notify_rate)
        beside = self.prefetch, self._counted, self.load, defaults
        recent = RecentEnds(clock)
        self.settling = Settling(engine, clock, worker_id, *beside, recent, linger, log_runs=settings.log_runs)
        storage = open_storage(settings, clock, numbers)
        self.spool = Spool(engine, storage, clock, Path(settings.data_dir) / SPOOL, numbers)
        self._inline_cap, patience = settings.inline_cap, settings.storage_patience
        self.large_results = LargeResults(engine, storage, clock, self.spool, patience, self._settled)
        submitting = Submitting(engine, clock, settings, storage)
        how = settings.max_log_bytes, numbers, submitting, TaskOutput(clock) if settings.log_output else None
        self.reporting = Reporting(engine, storage, clock, worker_id, *how)
        self.attempts = Attempts(clock, worker_id, execution, capacity, self.reporting, storage, self, chance, tracing)
        self.reporting.active = lambda: len(self.attempts)
        self.holdings = Holdings(engine, clock, worker_id, settings, self, recent)
        others = self.prefetch, self.attempts, self.settling.changes, self.ended, self.holdings
        self.worker = Worker(engine, clock, worker_id, *others, numbers=numbers)
        self.mailbox = CancelInbox(engine, clock, worker_id, self.attempts)
        members = self.worker, self.settling, self.attempts, self.mailbox, self.reporting, self.spool, self.holdings
        self.loops = {member.name: Loop(member, clock, numbers) for member in members}
        self.holdings.wake = self.loops[self.holdings.name].wake
        self._expose(numbers)

    @property
    def concerns(self) -> Mapping[Topic, Callable[[Hint], None]]:
        """The handlers of hints from the store."""
        return {Topic.RUNS: self._something_is_due, Topic.CANCELS: self._cancel_requested}

    @property
    def busy(self) -> bool:
        """Whether there are active attempts or hooks, or outcomes or logs not yet written."""
        ending = len(self.settling) or len(self.large_results) or self.reporting.storing or len(self.attempts.hooks)
        return bool(len(self.attempts) or ending or self.holdings.unsure)

    @property
    def workers(self) -> int:
        return self.prefetch.peers.count

    def known(self) -> Iterator[Claimed]:
        """Return the runs that this worker has in hand: executing, or with an outcome that is not written yet."""
        yield from self.attempts.known()
        yield from self.large_results.known()
        yield from self.settling.known()

    def running(self) -> Iterable[Claimed]:
        return [active.run for active in self.attempts]

    def stop_lost(self, run_id: RunId) -> None:
        self.attempts.stop(run_id, Stop.LOST)

    def begun(self) -> None:
        """Wake the loops for deadlines, cancel requests and reports: the first attempt is active."""
        self.mailbox.begun()
        for member in (self.attempts, self.mailbox, self.reporting):
            self.loops[member.name].wake()

    def started(self, runs: Sequence[Claimed], now: Instant) -> None:
        self._counted.started(runs, now)

    def preempted(self) -> None:
        self._counted.preempted()

    def ended(self, end: End) -> None:
        if isinstance(end, Settlement) and end.result is not None and len(end.result) > self._inline_cap:
            self.large_results.add(end)
        else:
            self._settled(end)
        self.loops[self.worker.name].wake()  # there is capacity

    def disowned(self) -> None:
        self.loops[self.worker.name].wake()  # there is capacity

    def _settled(self, end: End) -> None:
        self.settling.add(end)
        self.loops[self.settling.name].wake()

    def not_understood(self, run: Claimed) -> None:
        """Return a run to the queue, no attempt used, and ignore it for a while: else it is claimed again at once."""
        self.prefetch.leave_alone(run.run_id)
        self.ended(run)

    def _expose(self, numbers: Numbers) -> None:
        capacity = self.attempts.capacity
        numbers.read(table.PLACES, lambda: _by_kind(capacity.size))
        numbers.read(table.PLACES_USED, lambda: _by_kind(capacity.used))
        numbers.read(table.RESOURCES, lambda: _resources(capacity.offered.cpu_milli, capacity.offered.memory_mb))
        numbers.read(table.RESOURCES_USED, lambda: _resources(*capacity.requested))
        numbers.read(table.SETTLE_PENDING, lambda: {(): len(self.settling)})
        numbers.read(table.IN_DOUBT, lambda: {(): self.holdings.in_doubt})
        numbers.read(table.ABANDONED, lambda: {(): self.attempts.left_behind})

    def _something_is_due(self, hint: Hint) -> None:
        if hint.runs:
            self.prefetch.learn(hint.runs)
        else:
            self.prefetch.ask(hint.due, hint.classes)
        self.loops[self.worker.name].wake()

    def _cancel_requested(self, hint: Hint) -> None:
        if hint.target in (None, str(self.worker_id)):
            self.mailbox.hint()
            self.loops[self.mailbox.name].wake()


def _by_kind(slots: Mapping[Isolation, int]) -> dict[Labels, float]:
    return {(kind.name.lower(),): many for kind, many in slots.items()}


def _resources(cpu_milli: int, memory_mb: int) -> dict[Labels, float]:
    return {("cpu",): cpu_milli / 1_000, ("memory_bytes",): memory_mb * 2**20}


def places(settings: Settings) -> dict[Isolation, int]:
    """How many runs of each kind a worker takes at a time."""
    return {
        Isolation.LOOP: settings.concurrency,
        Isolation.THREAD: settings.threads,
        Isolation.PROCESS: settings.processes,
    }
