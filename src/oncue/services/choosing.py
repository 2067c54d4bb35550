"""Choose the next run among those known to be due: by rank, and when work is late every other one by user in turn."""

from __future__ import annotations

import heapq
from bisect import bisect
from collections import deque
from collections.abc import Iterable, Iterator

import msgspec

from oncue.domain.ids import ClassId, RunId, UserNumber
from oncue.domain.instants import MILLISECOND, NEVER, SECOND, Duration, Instant
from oncue.domain.placement import HEAD_START, ClassKey, Priority
from oncue.services.capacity import Capacity
from oncue.tasks import Isolation

ENOUGH_DUE = 2_000  # due runs known of one class: no need to read more
# A run that needs more than a single slot waits this long before capacity is reserved for it, and KEEP_NEXT longer on
# each further worker. A high-priority one: as soon as it is certain that no worker has capacity for it.
KEEP_AFTER = {
    Priority.HIGH: Duration(200 * MILLISECOND),
    Priority.NORMAL: Duration(2 * SECOND),
    Priority.LOW: Duration(2 * SECOND),
}
KEEP_NEXT = Duration(5 * SECOND)
FIRST = Duration(-NEVER)


class Peers:
    """This worker's position among all live workers, so that they do not all do the same for one run."""

    def __init__(self) -> None:
        self.place = 0
        self.count = 1
        self.alike_before = 0  # of those that take the same classes
        self.alike = 1

    def turn(self, run_id: RunId) -> int:
        """The position of this worker for this run. 0: it acts first."""
        return (run_id.int + self.place) % self.count


class DueRun(msgspec.Struct, frozen=True, eq=False):
    """A run that was seen waiting. Not a reservation: when it is due it may be gone."""

    run_id: RunId
    uid: UserNumber
    due: Instant
    class_queue: ClassQueue
    order: int

    @property
    def rank(self) -> Instant:
        return Instant(self.due + self.class_queue.handicap)


class InOrder:
    """Runs by due time: those that are due and wait for capacity, then future ones.

    They nearly always arrive in order, and leave from the front. So a list is enough, where a heap would sift for each.
    """

    __slots__ = ("_first", "_runs", "_to_come")

    def __init__(self) -> None:
        self._runs: list[tuple[Instant, int, DueRun]] = []
        self._first = 0  # runs before this index have left
        self._to_come = 0  # future runs start at this index

    def add(self, run: DueRun) -> None:
        entry = (run.due, run.order, run)
        if not self._runs or entry > self._runs[-1]:
            self._runs.append(entry)
            return
        self._runs.insert(bisect(self._runs, entry, self._first), entry)

    def first_due(self, now: Instant) -> DueRun | None:
        runs = self._runs
        while self._to_come < len(runs) and runs[self._to_come][0] <= now:
            self._to_come += 1
        return runs[self._first][2] if self._first < self._to_come else None

    def drop_first(self) -> None:
        self._first += 1
        if self._first >= ENOUGH_DUE:
            self.keep_of_due(self.due())

    def due(self) -> list[DueRun]:
        """The runs that were due at the last call of `first_due`."""
        return [run for _, _, run in self._runs[self._first : self._to_come]]

    def how_many_due(self) -> int:
        return self._to_come - self._first

    @property
    def empty(self) -> bool:
        return self._first == len(self._runs)

    def next_due(self) -> Instant | None:
        """The due time of the first future run."""
        return self._runs[self._to_come][0] if self._to_come < len(self._runs) else None

    def keep_of_due(self, runs: list[DueRun]) -> None:
        """Keep only these of the due runs; they are in order."""
        self._runs[: self._to_come] = [(run.due, run.order, run) for run in runs]
        self._first, self._to_come = 0, len(runs)


class ClassQueue:
    """The known runs of one class."""

    def __init__(self, class_id: ClassId, key: ClassKey, kind: Isolation) -> None:
        self.class_id = class_id
        self.queue = key.queue
        self.kind = kind
        self.size = key.size
        self.priority = key.priority
        self.big = key.size.slots > 1 or key.size.cpu_milli > 0 or key.size.memory_mb > 0
        self.handicap = HEAD_START[key.priority]  # from due time to rank
        self.paused = False  # its queue is paused: none of its runs can be claimed
        self.runs = InOrder()  # all have one priority: order of due time is order of rank
        self.seen = Instant(0)  # every run due until then has been read once
        self.newest = self.passed_on = -1  # the `order` of the run that came last, and of the last one passed on

    @property
    def hungry(self) -> bool:
        return self.runs.how_many_due() < ENOUGH_DUE and not self.paused

    def behind(self, now: Instant) -> bool:
        """Whether some due run may not have been read, and the worker needs more."""
        return self.seen < now and self.hungry

    @property
    def goes_first(self) -> bool:
        return self.handicap == FIRST

    def go_first(self) -> None:
        """Put its first run before all others, because other runs were preempted for it."""
        self.handicap = FIRST

    def go_by_rank(self) -> None:
        self.handicap = HEAD_START[self.priority]

    def head(self, known: dict[RunId, DueRun], now: Instant) -> DueRun | None:
        """The first due run, skipping those that were taken in turn or found again with an earlier due time."""
        while (best := self.runs.first_due(now)) is not None and known.get(best.run_id) is not best:
            self.runs.drop_first()
        return None if self.paused else best


class Choice:
    """The runs that one claim asks for: chosen on a copy of the capacity, since only claimed runs take capacity."""

    def __init__(
        self,
        class_queues: Iterable[ClassQueue],
        known: dict[RunId, DueRun],
        capacity: Capacity,
        now: Instant,
        most: int,
        peers: Peers,
        *,
        others_wait: bool,
    ) -> None:
        self.taken: list[DueRun] = []
        self.last_turn: UserNumber | None = None
        self._known = known
        self._room = capacity.copy()
        self._now = now
        self._most = most
        self._others_wait = others_wait
        self._wary = capacity.wary
        heads = []
        for class_queue in class_queues:
            head = self._head(class_queue)
            if head is not None:
                heads.append(head)
            else:
                class_queue.go_by_rank()  # the run that others were preempted for is gone
        self._kept = [head for head in heads if head.class_queue.big and self._waits_long(head, peers)]
        self._heads = [(head.rank, head.order, head.class_queue) for head in heads]
        heapq.heapify(self._heads)

    def alternate(self, turns: list[DueRun], *, turn_first: bool) -> bool:
        """Alternate between users' turns and rank. When one has no more runs, the other continues.

        True: the next run would be one in turn.
        """
        in_turn, by_rank = self._in_turn(turns), self._by_rank()
        streams = deque((in_turn, by_rank) if turn_first else (by_rank, in_turn))
        while streams and len(self.taken) < self._most:
            if next(streams[0], None) is None:
                streams.popleft()
            else:
                turn_first = streams[0] is by_rank
                streams.rotate()
        return turn_first

    def _in_turn(self, turns: list[DueRun]) -> Iterator[bool]:
        for run in turns:
            class_queue = run.class_queue
            fits = self._room.fits(class_queue.kind, class_queue.size, class_queue.priority)
            if fits and self._known.get(run.run_id) is run and self._may_go(run):
                del self._known[run.run_id]
                self._take(class_queue, [run])
                self.last_turn = run.uid
                yield True

    def _by_rank(self) -> Iterator[bool]:
        """Yield the best runs by rank; several in a row from one class queue, unless other users wait."""
        one_by_one = self._others_wait or self._wary
        while self._heads:
            _, _, class_queue = heapq.heappop(self._heads)
            next_rank = self._heads[0][0] if self._heads else NEVER
            most = 1 if one_by_one or class_queue.goes_first else self._most - len(self.taken)
            row = self._row(
                class_queue,
                next_rank,
                min(most, self._room.how_many(class_queue.kind, class_queue.size, class_queue.priority)),
            )
            if row:
                self._take(class_queue, row)
            head = self._head(class_queue)
            if head is not None and (row or head.rank > next_rank):  # else no capacity: its others are as big
                heapq.heappush(self._heads, (head.rank, head.order, class_queue))
            if row:
                yield True

    def _row(self, class_queue: ClassQueue, next_rank: Instant, most: int) -> list[DueRun]:
        """Its first runs, at most `most`, as long as no run of another class queue comes before them."""
        row: list[DueRun] = []
        last_due = next_rank - class_queue.handicap
        anybody = not (self._others_wait or self._kept)
        while len(row) < most:
            best = self._head(class_queue)
            if best is None or best.due > last_due or not (anybody or self._may_go(best)):
                break
            class_queue.runs.drop_first()
            del self._known[best.run_id]
            row.append(best)
        return row

    def _head(self, class_queue: ClassQueue) -> DueRun | None:
        """Its first run. Runs of barred users are dropped, so as not to block others: the next sweep finds them."""
        best = class_queue.head(self._known, self._now)
        while self._wary and best is not None and self._room.is_barred(class_queue.kind, best.uid):
            class_queue.runs.drop_first()
            del self._known[best.run_id]
            best = class_queue.head(self._known, self._now)
        return best

    def _take(self, class_queue: ClassQueue, row: list[DueRun]) -> None:
        """Take runs. Their users matter only while others wait or a user may be barred: then they come one by one."""
        self._room.take(class_queue.kind, class_queue.size, row[0].uid, len(row))
        class_queue.go_by_rank()
        self.taken += row

    def _may_go(self, run: DueRun) -> bool:
        """Whether its user may hold more while others wait, and no earlier run waits for the capacity it would take."""
        if self._has_enough(run):
            return False
        return not self._kept or not any(self._goes_before(kept, run) for kept in self._kept)

    def _has_enough(self, run: DueRun) -> bool:
        kind, uid = run.class_queue.kind, run.uid
        return (self._others_wait and self._room.has_enough(kind, uid)) or (
            self._wary and self._room.is_barred(kind, uid)
        )

    def _waits_long(self, head: DueRun, peers: Peers) -> bool:
        """Whether it has waited so long that smaller runs must not starve it."""
        wait = KEEP_AFTER[head.class_queue.priority] + KEEP_NEXT * peers.turn(head.run_id)
        return head.due <= self._now - wait and not self._has_enough(head)

    def _goes_before(self, kept: DueRun, run: DueRun) -> bool:
        """Whether `kept` comes before `run`, still waits, and needs a resource that `run` would take."""
        if kept is run or kept.rank >= run.rank or self._known.get(kept.run_id) is not kept:
            return False
        big, small = kept.class_queue, run.class_queue
        return (
            (big.kind is small.kind and big.size.slots > 1)
            or (big.size.cpu_milli > 0 and small.size.cpu_milli > 0)
            or (big.size.memory_mb > 0 and small.size.memory_mb > 0)
        )
