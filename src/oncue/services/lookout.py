"""Looking ahead: what comes within half a second, read into memory so that it can be claimed on the instant.

A read reserves nothing. Three looks complete each other: a window that moves on with time and reads everything once, a
look where a hint points, and once a second a sweep over all that is due and still waits, which finds what the other
two have missed. When work is late there is a fourth: a few runs of every user in turn, however much one of them has.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter, deque
from collections.abc import Iterable, Sequence

from oncue.clock import Clock
from oncue.domain.ids import ClassId, RunId, UserNumber
from oncue.domain.instants import MICROSECOND, MILLISECOND, NEVER, SECOND, Duration, Instant
from oncue.domain.placement import ClassKey, Offer, Priority, misfit, rank
from oncue.domain.run import Peeked
from oncue.engines.port import Engine
from oncue.services.capacity import Capacity
from oncue.tasks import Isolation, Tasks

AHEAD = Duration(500 * MILLISECOND)
POLL = Duration(250 * MILLISECOND)  # twice in what a look covers, so that a slow one leaves no hole
SWEEP = Duration(SECOND)
SPACING = Duration(10 * MILLISECOND)  # between looks, however many hints come
LIMIT = 10_000  # of each class in one look
ENOUGH = 2_000  # due and known, of one class: no need to look for more
LATE = Duration(SECOND)  # from here on users take turns
TURNS = 100  # users in one round
TURN = 5  # runs of each
FEW = 100  # claimed at a time while users take turns: nobody waits for a thousand of somebody else's
KEEP_AFTER = Duration(2 * SECOND)  # what is too big for the room there is waits so long before room is kept for it
LONG_AGO = Instant(0)


class Known:
    """A run that was seen waiting. Not a reservation: by its instant it may be gone."""

    __slots__ = ("due", "line", "order", "run_id", "uid")

    def __init__(self, run: Peeked, line: Line, order: int) -> None:
        self.run_id = run.run_id
        self.uid = run.uid
        self.due = run.due
        self.line = line
        self.order = order


class Line:
    """The known runs of one class: those to come, and those that are due and wait for room."""

    def __init__(self, key: ClassKey, kind: Isolation) -> None:
        self.kind = kind
        self.size = key.size
        self.priority = key.priority
        self.soon: list[tuple[Instant, int, Known]] = []
        self.ready: list[tuple[Instant, int, Known]] = []  # all of one priority: by due is by rank
        self.seen = LONG_AGO  # everything due until then has been read once

    @property
    def hungry(self) -> bool:
        return len(self.ready) < ENOUGH

    def behind(self, now: Instant) -> bool:
        """Something due may not have been read, and there is use for it."""
        return self.seen < now and self.hungry

    def ripen(self, now: Instant) -> None:
        while self.soon and self.soon[0][0] <= now:
            heapq.heappush(self.ready, heapq.heappop(self.soon))


class Lookout:
    def __init__(self, engine: Engine, clock: Clock, tasks: Tasks, offer: Offer) -> None:
        self._engine = engine
        self._clock = clock
        self._offer = offer
        self._kinds = {task.name: task.takes for task in tasks}
        self._lines: dict[ClassId, Line] = {}
        self._known: dict[RunId, Known] = {}
        self._order = itertools.count()
        self._turns: deque[Known] = deque()
        self._last_turn = UserNumber(0)
        self._others_wait = False  # at the last round more than one user had something due
        self._took = True
        self._asked = NEVER  # where a hint points
        self._look_at = self._sweep_at = self._rest_until = LONG_AGO

    @property
    def classes(self) -> tuple[ClassId, ...]:
        """Those this worker can run."""
        return tuple(self._lines)

    def ask(self, due: Instant | None) -> None:
        """Something is due from then on (None: anything may be): look there soon."""
        self._asked = min(self._asked, LONG_AGO if due is None else Instant(due - MICROSECOND))

    # ---------------------------------------------------------------------------------------------------------- reading

    async def look(self) -> None:
        """Read what is missing, if it is time to and there is use for it."""
        now = self._clock.now()
        if now < self._rest_until:
            return
        asked, self._asked = self._asked, NEVER
        try:
            if now >= self._sweep_at:
                await self._refresh()
                await self._sweep(now)
                self._sweep_at = Instant(now + SWEEP)
            if asked < now + AHEAD:
                await self._refresh()
                await self._read(self._hungry(), asked, Instant(now + AHEAD))
            if now >= self._look_at or asked < now:
                await self._take_turns(now)
            if now >= self._look_at or any(line.behind(now) for line in self._lines.values()):
                await self._move_on(Instant(now + AHEAD))
                self._look_at = Instant(now + POLL)
        except BaseException:
            self._asked = min(self._asked, asked)
            raise
        self._rest_until = Instant(now + SPACING)

    def _hungry(self) -> list[ClassId]:
        return [class_id for class_id, line in self._lines.items() if line.hungry]

    async def _refresh(self) -> None:
        """New classes appear with the first job that needs them."""
        for class_id, key in (await self._engine.jobs.classes()).items():
            if class_id not in self._lines and misfit(key, self._offer) is None:
                self._lines[class_id] = Line(key, self._kinds[key.task])

    async def _sweep(self, now: Instant) -> None:
        """All that is due; and whatever we know that is not among it is gone: another's, cancelled, or put off."""
        hungry = self._hungry()
        short, found = await self._read(hungry, LONG_AGO, now)
        there = {run.run_id for run in found}
        for class_id in set(hungry) - short.keys():
            line = self._lines[class_id]
            if any(known.run_id not in there for _, _, known in line.ready):
                for _, _, known in line.ready:
                    if known.run_id not in there and self._known.get(known.run_id) is known:
                        del self._known[known.run_id]
                line.ready = [entry for entry in line.ready if entry[2].run_id in there]
                heapq.heapify(line.ready)

    async def _move_on(self, until: Instant) -> None:
        """The stretch that nobody has read yet; nearly always the same for every class, and then one read."""
        lines = {class_id: self._lines[class_id] for class_id in self._hungry()}
        for seen in {min(line.seen, until) for line in lines.values()}:
            classes = [class_id for class_id, line in lines.items() if min(line.seen, until) == seen]
            short, _ = await self._read(classes, seen, until)
            for class_id in classes:
                lines[class_id].seen = short.get(class_id, until)

    async def _take_turns(self, now: Instant) -> None:
        """Only when work is late. Runs of each user, one of everybody's first, then the second of everybody's."""
        self._turns.clear()
        self._others_wait = False
        heads = [head for line in self._lines.values() if (head := self._head(line, now)) is not None]
        if not any(line.ready[0][0] < now - LATE for _, _, line in heads):
            return
        found = await self._engine.running.peek_fair(self.classes, self._last_turn, TURNS, TURN, now)
        self._last_turn = found[-1].uid if found else UserNumber(0)
        self._others_wait = len({run.uid for run in found}) > 1
        if self._others_wait:
            self._remember(found)
            number: Counter[UserNumber] = Counter()
            rounds: list[tuple[int, Known]] = []
            for run in found:
                number[run.uid] += 1
                rounds.append((number[run.uid], self._known[run.run_id]))
            self._turns.extend(known for _, known in sorted(rounds, key=lambda one: one[0]))

    async def _read(
        self, classes: Sequence[ClassId], after: Instant, until: Instant
    ) -> tuple[dict[ClassId, Instant], list[Peeked]]:
        """Into memory. Also returned: the classes of which there was more than fits, and how far they were read."""
        if not classes:
            return {}, []
        found = await self._engine.running.peek(classes, after, until, LIMIT)
        self._remember(found)
        counts = Counter(run.class_id for run in found)
        if max(counts.values(), default=0) < LIMIT:
            return {}, found
        last = {run.class_id: Instant(run.due - MICROSECOND) for run in found}
        return {class_id: last[class_id] for class_id, n in counts.items() if n >= LIMIT}, found

    def _remember(self, found: Iterable[Peeked]) -> None:
        known = self._known
        for run in found:
            before = known.get(run.run_id)
            if before is None or run.due < before.due:  # else it is there, or was put off: then its claim will tell
                line = self._lines[run.class_id]
                new = known[run.run_id] = Known(run, line, next(self._order))
                heapq.heappush(line.soon, (run.due, new.order, new))

    # --------------------------------------------------------------------------------------------------------- choosing

    def take(self, capacity: Capacity, most: int) -> list[RunId]:
        """The ids to claim now: due, best rank first, as many as there is room for; late, every other one in turn."""
        now = self._clock.now()
        choice = Choice(self._known, capacity, others_wait=self._others_wait)
        heads = [head for line in self._lines.values() if (head := self._head(line, now)) is not None]
        heapq.heapify(heads)
        most = min(most, FEW) if self._others_wait else most
        while heads and len(choice.taken) < most:
            if self._turns:
                choice.offer(self._turns.popleft())
            _, _, line = heapq.heappop(heads)
            if self._head(line, now) is None:
                continue
            if not choice.offer(line.ready[0][2]):
                if line.ready[0][0] < now - KEEP_AFTER:
                    choice.keep_room_for(line)  # the others of its line are as big; smaller ones must not starve it
            elif (head := self._head(line, now)) is not None:
                heapq.heappush(heads, head)
        choice.undo()
        self._took = bool(choice.taken)
        return choice.taken

    def _head(self, line: Line, now: Instant) -> tuple[Instant, int, Line] | None:
        """Its best run, without those that were taken in turn or found again with an earlier due."""
        line.ripen(now)
        while line.ready and self._known.get(line.ready[0][2].run_id) is not line.ready[0][2]:
            heapq.heappop(line.ready)
        return (rank(line.priority, line.ready[0][0]), line.ready[0][1], line) if line.ready else None

    def high_waits(self, capacity: Capacity) -> Isolation | None:
        """The kind of which something of high priority is due and finds no room."""
        now = self._clock.now()
        for line in self._lines.values():
            waits = line.priority is Priority.HIGH and self._head(line, now) is not None
            if waits and not capacity.fits(line.kind, line.size, line.priority):
                return line.kind
        return None

    def wait(self, capacity: Capacity) -> Duration:
        """How long until there is something to read or to claim."""
        now = self._clock.now()
        lines = self._lines.values()
        if self._took and any(line.ready and capacity.fits(line.kind, line.size, line.priority) for line in lines):
            return Duration(0)
        wanted = [line.soon[0][0] for line in lines if line.soon]
        at_once = self._asked < now + AHEAD or any(line.behind(now) for line in lines)
        wanted.append(max(LONG_AGO if at_once else min(self._look_at, self._sweep_at), self._rest_until))
        return Duration(max(min(wanted) - now, 0))


class Choice:
    """What one claim asks for. Room is taken while choosing, and given back after: only what is claimed takes it."""

    def __init__(self, known: dict[RunId, Known], capacity: Capacity, *, others_wait: bool) -> None:
        self.taken: list[RunId] = []
        self._known = known
        self._capacity = capacity
        self._others_wait = others_wait
        self._chosen: list[Known] = []
        self._kept: list[Line] = []

    def offer(self, run: Known) -> bool:
        """False: there is no room for it now, or its user has enough while others wait."""
        line = run.line
        if self._known.get(run.run_id) is not run:
            return False
        if not self._capacity.fits(line.kind, line.size, line.priority) or self._must_leave_room(line):
            return False
        if self._others_wait and self._capacity.has_enough(line.kind, run.uid):
            return False
        self._capacity.take(line.kind, line.size, run.uid)
        del self._known[run.run_id]
        self._chosen.append(run)
        self.taken.append(run.run_id)
        return True

    def keep_room_for(self, line: Line) -> None:
        if not self._capacity.fits(line.kind, line.size, line.priority):
            self._kept.append(line)

    def undo(self) -> None:
        for run in self._chosen:
            self._capacity.give_back(run.line.kind, run.line.size, run.uid)

    def _must_leave_room(self, line: Line) -> bool:
        """Somebody bigger has waited too long for something that this one would take. What is high goes first."""
        return line.priority is not Priority.HIGH and any(_compete(kept, line) for kept in self._kept)


def _compete(big: Line, small: Line) -> bool:
    return (
        (big.kind is small.kind and big.size.slots > 1)
        or (big.size.cpu_milli > 0 and small.size.cpu_milli > 0)
        or (big.size.memory_mb > 0 and small.size.memory_mb > 0)
    )
