"""The state of the whole cluster in numbers, as of one moment: what engines read, and what follows from it."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from oncue.domain.ids import ClassId
from oncue.domain.instants import SECOND, Duration, Instant
from oncue.domain.placement import NOTICE_CLASS, ClassKey, read_offer
from oncue.engines.values import Count, Member, Worker

MOST_CLASSES = 2_000  # with open runs, that one read looks at
DUE_COUNTED = 10_000  # due runs of all classes together, that one read counts
MOST_ORPHANS = 10_000  # that one read counts
MEMBER_LEASE = Duration(30 * SECOND)  # a process without a heartbeat for this long does not count


class ClassGauge(msgspec.Struct, frozen=True):
    """A class with open runs."""

    class_id: ClassId
    key: ClassKey
    open: int  # runs that have not ended
    due: int = 0  # of these, due now and held by nothing
    more: bool = False  # there are more due than were counted
    oldest_due: Instant | None = None  # when the first of them was due


class Backlog(msgspec.Struct, frozen=True):
    """The runs of a class that could start now, and those that run."""

    due: int = 0
    more: bool = False  # there may be more due than were counted
    oldest_due: Instant | None = None
    running: int = 0


DueRuns = tuple[int, Instant | None]  # how many, and when the first of them was due


class Pulse(msgspec.Struct, frozen=True):
    """What changes every second."""

    counts: Mapping[str, int]  # by `Count`, since the store was created
    running: int
    due: int
    more: bool  # there may be more due than were counted

    @property
    def open_letters(self) -> int:
        count = self.counts.get
        return count(Count.DEAD, 0) - count(Count.REQUEUED, 0) - count(Count.DISCARDED, 0)


class QueueGauge(msgspec.Struct, frozen=True):
    """A queue with open runs, or a paused one."""

    queue: str
    open: int
    due: int
    more: bool
    oldest_due: Duration  # how long the first run has been due; 0: none is
    paused: bool


class Turn(msgspec.Struct, frozen=True):
    """Recurring work that any process may do: when its next turn is due, and where it continues."""

    next_at: Instant
    position: bytes


class Gauges(msgspec.Struct, frozen=True):
    at: Instant
    counts: Mapping[tuple[str, str], int]  # by task and `Count`, since the store was created
    classes: tuple[ClassGauge, ...]  # with open runs, most of them first
    more_classes: bool  # there are more than were looked at
    paused: Mapping[str, Instant]  # queues
    next_plan: Instant | None  # the nearest instant that is still to be planned
    held_since: Instant | None  # when the first run was wanted that a lane or gate holds now
    orphans: int
    members: tuple[Member, ...]
    workers: tuple[Worker, ...]
    oldest_transaction: Duration | None  # as far as the database shows it; None: there is no such thing, or none
    history_from: Instant | None  # when the oldest partition of history begins
    findings: Mapping[str, int]  # open ones, by check
    turns: Mapping[str, Turn]
    notices_since: Instant | None = None  # when the first notice was wanted that nobody has tried to send

    @property
    def planner_lag(self) -> Duration:
        """How late planning is. 0 when all is well, because it is ahead."""
        return _since(self.next_plan, self.at)

    @property
    def held_oldest(self) -> Duration:
        return _since(self.held_since, self.at)

    @property
    def notices(self) -> tuple[int, Duration]:
        """How many notices have not ended, and how long the first has waited that nobody has tried to send."""
        waiting = sum(one.open for one in self.classes if one.key == NOTICE_CLASS)
        return waiting, _since(self.notices_since, self.at)

    @property
    def dead_letters(self) -> dict[str, int]:
        """The open dead letters by task: those that no user has requeued or discarded."""
        tasks = {task for task, what in self.counts if what == Count.DEAD}
        return {
            task: self.counts[task, Count.DEAD]
            - self.counts.get((task, "requeued"), 0)
            - self.counts.get((task, "discarded"), 0)
            for task in tasks
        }

    @property
    def queues(self) -> tuple[QueueGauge, ...]:
        """All queues with open runs, and paused ones, by name."""
        found: dict[str, list[ClassGauge]] = {queue: [] for queue in self.paused}
        for one in self.classes:
            found.setdefault(one.key.queue, []).append(one)
        return tuple(self._queue(queue, found[queue]) for queue in sorted(found))

    def _queue(self, queue: str, classes: Sequence[ClassGauge]) -> QueueGauge:
        return QueueGauge(
            queue=queue,
            open=sum(one.open for one in classes),
            due=sum(one.due for one in classes),
            more=any(one.more for one in classes),
            oldest_due=_since(
                min((one.oldest_due for one in classes if one.oldest_due is not None), default=None), self.at
            ),
            paused=queue in self.paused,
        )

    @property
    def processes(self) -> dict[tuple[str, str], int]:
        """How many processes run, by role and version."""
        lately = (one for one in self.members if abs(self.at - one.beat_at) <= MEMBER_LEASE)
        return dict(Tally((one.role, one.version) for one in lately))

    @property
    def live_workers(self) -> list[Worker]:
        """The workers with a heartbeat within their lease that take runs."""
        return [one for one in self.workers if not one.draining and self._alive(one)]

    @property
    def draining_workers(self) -> list[Worker]:
        """The workers with a heartbeat within their lease that take no new runs."""
        return [one for one in self.workers if one.draining and self._alive(one)]

    @property
    def worker_states(self) -> dict[str, int]:
        return {"live": len(self.live_workers), "draining": len(self.draining_workers)}

    def _alive(self, worker: Worker) -> bool:
        return abs(self.at - worker.beat_at) <= worker.lease

    @property
    def tasks_without_worker(self) -> tuple[str, ...]:
        """The tasks with open runs that no live worker has."""
        offered: set[str] = set()
        taken: set[ClassId] = set()
        for worker in self.live_workers:
            offer = read_offer(worker.info)
            offered |= offer.tasks if offer is not None else frozenset()
            taken |= set(worker.classes) if offer is None else set()  # of another version: what it says it takes
        offered |= {one.key.task for one in self.classes if one.class_id in taken}
        return tuple(sorted({one.key.task for one in self.classes} - offered))


def _since(at: Instant | None, now: Instant) -> Duration:
    return Duration(0 if at is None else max(0, now - at))


def backlogs(
    classes: Iterable[ClassId], due: Mapping[ClassId, DueRuns], running: Mapping[ClassId, int], *, full: bool
) -> dict[ClassId, Backlog]:
    """Put together what was counted; classes without anything are left out. `full`: counting stopped at its limit."""
    found = {}
    for class_id in classes:
        n, oldest = due.get(class_id, (0, None))
        if n or full or class_id in running:
            found[class_id] = Backlog(n, full, oldest, running.get(class_id, 0))
    return found


def by_oldest(classes: Iterable[ClassGauge], oldest: Mapping[ClassId, Instant]) -> list[ClassId]:
    """Return the classes with due runs in the order in which to count these: first the queue with the oldest."""
    queues: dict[str, Instant] = {}
    due = [one for one in classes if one.class_id in oldest]
    for one in due:
        queues[one.key.queue] = min(oldest[one.class_id], queues.get(one.key.queue, oldest[one.class_id]))
    return [
        one.class_id
        for one in sorted(
            due, key=lambda one: (queues[one.key.queue], one.key.queue, oldest[one.class_id], one.class_id)
        )
    ]


def with_due(
    classes: Iterable[ClassGauge],
    oldest: Mapping[ClassId, Instant],
    order: Sequence[ClassId],
    counted: Mapping[ClassId, int],
    limit: int,
) -> tuple[ClassGauge, ...]:
    """Add what is due. Where counting stopped at the limit, the last class counted and those after it have more."""
    reached = sum(class_id in counted for class_id in order)
    more = frozenset(order[max(0, reached - 1) :] if sum(counted.values()) >= limit else ())
    return tuple(
        msgspec.structs.replace(
            one, due=max(1, counted.get(one.class_id, 0)), more=one.class_id in more, oldest_due=oldest[one.class_id]
        )
        if one.class_id in oldest
        else one
        for one in classes
    )
