"""Who goes next, of all that is known to be due: by rank, and when work is late every other one in turn by user."""

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

ENOUGH = 2_000  # due and known, of one class: no need to look for more
# What asks for more than a place waits so long before room is kept for it, and so much longer on the next worker.
# As soon as it is certain that nobody has room for it, if it is high.
KEEP_AFTER = {
    Priority.HIGH: Duration(200 * MILLISECOND),
    Priority.NORMAL: Duration(2 * SECOND),
    Priority.LOW: Duration(2 * SECOND),
}
KEEP_NEXT = Duration(5 * SECOND)
FIRST = Duration(-NEVER)


class Peers:
    """Where this worker stands among all that live, so that they do not all do the same thing for one run."""

    def __init__(self) -> None:
        self.place = 0
        self.count = 1

    def turn(self, run_id: RunId) -> int:
        """0: it is the first to do something for this run."""
        return (run_id.int + self.place) % self.count


class DueRun(msgspec.Struct, frozen=True, eq=False):
    """A run that was seen waiting. Not a reservation: by its instant it may be gone."""

    run_id: RunId
    uid: UserNumber
    due: Instant
    class_queue: ClassQueue
    order: int

    @property
    def rank(self) -> Instant:
        return Instant(self.due + self.class_queue.handicap)


class InOrder:
    """Runs by due: those that are due and wait for room, then those to come.

    They come in order, nearly always, and leave from the front. So a list does, where a heap sifts for each of them.
    """

    __slots__ = ("_first", "_runs", "_to_come")

    def __init__(self) -> None:
        self._runs: list[tuple[Instant, int, DueRun]] = []
        self._first = 0  # those before it have left
        self._to_come = 0  # from here on

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
        if self._first >= ENOUGH:
            self.keep_of_due(self.due())

    def due(self) -> list[DueRun]:
        """Those that were when they were last asked for."""
        return [run for _, _, run in self._runs[self._first : self._to_come]]

    def how_many_due(self) -> int:
        return self._to_come - self._first

    @property
    def empty(self) -> bool:
        return self._first == len(self._runs)

    def next_due(self) -> Instant | None:
        """Of those to come."""
        return self._runs[self._to_come][0] if self._to_come < len(self._runs) else None

    def keep_of_due(self, runs: list[DueRun]) -> None:
        """Only these of the due ones, which are in order."""
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
        self.handicap = HEAD_START[key.priority]  # from due to rank
        self.paused = False  # its queue is: nothing of it can be claimed
        self.runs = InOrder()  # all of one priority: by due is by rank
        self.seen = Instant(0)  # everything due until then has been read once

    @property
    def hungry(self) -> bool:
        return self.runs.how_many_due() < ENOUGH and not self.paused

    def behind(self, now: Instant) -> bool:
        """Something due may not have been read, and there is use for it."""
        return self.seen < now and self.hungry

    @property
    def goes_first(self) -> bool:
        return self.handicap == FIRST

    def go_first(self) -> None:
        """Others give way for its best, which therefore goes before everybody."""
        self.handicap = FIRST

    def go_by_rank(self) -> None:
        self.handicap = HEAD_START[self.priority]

    def head(self, known: dict[RunId, DueRun], now: Instant) -> DueRun | None:
        """The best that is due, past those that were taken in turn or found again with an earlier due."""
        while (best := self.runs.first_due(now)) is not None and known.get(best.run_id) is not best:
            self.runs.drop_first()
        return None if self.paused else best


class Choice:
    """What one claim asks for: chosen on a copy of the room there is, which only what is claimed will take."""

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
                class_queue.go_by_rank()  # whoever others gave way for is gone
        self._kept = [head for head in heads if head.class_queue.big and self._waits_long(head, peers)]
        self._heads = [(head.rank, head.order, head.class_queue) for head in heads]
        heapq.heapify(self._heads)

    def alternate(self, turns: list[DueRun], *, turn_first: bool) -> bool:
        """One in turn, the best of all, one in turn. Where one has no more, the other goes on.

        True: the next one would be in turn.
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
        """The best of all; as many in a row as are of one line, unless others wait."""
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
            if head is not None and (row or head.rank > next_rank):  # else there is no room: its others are as big
                heapq.heappush(self._heads, (head.rank, head.order, class_queue))
            if row:
                yield True

    def _row(self, class_queue: ClassQueue, next_rank: Instant, most: int) -> list[DueRun]:
        """Its first so many, as long as no other line's comes before them."""
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
        """Its best. Those of users who are barred go out of the others' way: the next sweep finds them again."""
        best = class_queue.head(self._known, self._now)
        while self._wary and best is not None and self._room.is_barred(class_queue.kind, best.uid):
            class_queue.runs.drop_first()
            del self._known[best.run_id]
            best = class_queue.head(self._known, self._now)
        return best

    def _take(self, class_queue: ClassQueue, row: list[DueRun]) -> None:
        """Whose they are matters only while others wait or somebody may be barred: then they are taken one by one."""
        self._room.take(class_queue.kind, class_queue.size, row[0].uid, len(row))
        class_queue.go_by_rank()
        self.taken += row

    def _may_go(self, run: DueRun) -> bool:
        """Its user has not enough while others wait, and nobody before it waits for what it would take."""
        if self._has_enough(run):
            return False
        return not self._kept or not any(self._goes_before(kept, run) for kept in self._kept)

    def _has_enough(self, run: DueRun) -> bool:
        kind, uid = run.class_queue.kind, run.uid
        return (self._others_wait and self._room.has_enough(kind, uid)) or (
            self._wary and self._room.is_barred(kind, uid)
        )

    def _waits_long(self, head: DueRun, peers: Peers) -> bool:
        """So long that smaller ones must not starve it."""
        wait = KEEP_AFTER[head.class_queue.priority] + KEEP_NEXT * peers.turn(head.run_id)
        return head.due <= self._now - wait and not self._has_enough(head)

    def _goes_before(self, kept: DueRun, run: DueRun) -> bool:
        """It is before this one, still waits, and asks for something that this one would take."""
        if kept is run or kept.rank >= run.rank or self._known.get(kept.run_id) is not kept:
            return False
        big, small = kept.class_queue, run.class_queue
        return (
            (big.kind is small.kind and big.size.slots > 1)
            or (big.size.cpu_milli > 0 and small.size.cpu_milli > 0)
            or (big.size.memory_mb > 0 and small.size.memory_mb > 0)
        )
