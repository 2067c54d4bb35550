"""Looking ahead: what comes within half a second, read into memory so that it can be claimed on the instant.

A read reserves nothing. Three looks complete each other: a window that moves on with time and reads everything once, a
look where a hint points, and once a second a sweep over all that is due and still waits, which finds what the other
two have missed.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Mapping

from oncue.clock import Clock
from oncue.domain.ids import ClassId, RunId
from oncue.domain.instants import MICROSECOND, MILLISECOND, NEVER, SECOND, Duration, Instant
from oncue.domain.placement import ClassKey, Offer, Priority, misfit, rank
from oncue.domain.run import Peeked
from oncue.engines.port import Engine
from oncue.tasks import Isolation, Tasks

AHEAD = Duration(500 * MILLISECOND)
POLL = Duration(250 * MILLISECOND)  # twice in what a look covers, so that a slow one leaves no hole
SWEEP = Duration(SECOND)
SPACING = Duration(10 * MILLISECOND)  # between looks, however many hints come
LIMIT = 10_000  # of each class in one look
ENOUGH = 2_000  # known and due: no need to look for more
LONG_AGO = Instant(0)


class Place:
    """Where runs of one kind wait for their instant, and then for room."""

    def __init__(self) -> None:
        self.soon: list[tuple[Instant, int, RunId, Priority]] = []  # by due, then as they were found
        self.ready: list[tuple[Instant, int, RunId]] = []  # due, in order of rank

    def ripen(self, now: Instant) -> None:
        while self.soon and self.soon[0][0] <= now:
            due, order, run_id, priority = heapq.heappop(self.soon)
            heapq.heappush(self.ready, (rank(priority, due), order, run_id))


class Lookout:
    def __init__(self, engine: Engine, clock: Clock, tasks: Tasks, offer: Offer) -> None:
        self._engine = engine
        self._clock = clock
        self._tasks = tasks
        self._offer = offer
        self._places = {kind: Place() for kind in Isolation}
        self._known: dict[RunId, Instant] = {}
        self._order = itertools.count()
        self._classes: dict[ClassId, ClassKey] = {}
        self._seen = LONG_AGO  # everything due until then has been read once
        self._asked = NEVER  # where a hint points
        self._look_at = self._sweep_at = self._rest_until = LONG_AGO

    @property
    def classes(self) -> tuple[ClassId, ...]:
        """Those this worker can run."""
        return tuple(self._classes)

    def ask(self, due: Instant | None) -> None:
        """Something is due from then on (None: anything may be): look there soon."""
        self._asked = min(self._asked, LONG_AGO if due is None else Instant(due - MICROSECOND))

    async def look(self) -> None:
        """Read what is missing, if it is time to."""
        now = self._clock.now()
        if now < self._rest_until or self._enough():
            return
        asked, self._asked = self._asked, NEVER
        try:
            if now >= self._sweep_at:
                await self._refresh()
                await self._read(LONG_AGO, now)
                self._sweep_at = Instant(now + SWEEP)
            elif asked < now + AHEAD:
                await self._refresh()
                await self._read(asked, Instant(now + AHEAD))
        except BaseException:
            self.ask(asked)
            raise
        if now >= self._look_at:
            until = Instant(now + AHEAD)
            self._seen = await self._read(min(self._seen, until), until)
            self._look_at = Instant(now + POLL) if self._seen == until else now
        self._rest_until = Instant(now + SPACING)

    def take(self, room: Mapping[Isolation, int], most: int) -> list[RunId]:
        """The ids to claim now: due, best rank first, as many as there is room for."""
        now = self._clock.now()
        taken: list[RunId] = []
        for kind, place in self._places.items():
            place.ripen(now)
            left = min(room[kind], most - len(taken))
            while left > 0 and place.ready:
                _, _, run_id = heapq.heappop(place.ready)
                if self._known.pop(run_id, None) is not None:  # else it was found twice, and taken by its earlier due
                    taken.append(run_id)
                    left -= 1
        return taken

    def wait(self, room: Mapping[Isolation, int]) -> Duration:
        """How long until there is something to read or to claim."""
        now = self._clock.now()
        places = self._places.items()
        if any(place.ready and room[kind] for kind, place in places):
            return Duration(0)
        wanted = [place.soon[0][0] for _, place in places if place.soon]
        if not self._enough():
            look_at = LONG_AGO if self._asked < now + AHEAD else min(self._look_at, self._sweep_at)
            wanted.append(max(look_at, self._rest_until))
        return Duration(max(min(wanted, default=NEVER) - now, 0))

    def _enough(self) -> bool:
        return sum(len(place.ready) for place in self._places.values()) >= ENOUGH

    async def _refresh(self) -> None:
        """New classes appear with the first job that needs them."""
        known = await self._engine.jobs.classes()
        able = {class_id: key for class_id, key in known.items() if misfit(key, self._offer) is None}
        if able.keys() - self._classes.keys():
            self._seen = LONG_AGO
        self._classes = able

    async def _read(self, after: Instant, until: Instant) -> Instant:
        """Returns how far everything was read: less than `until` when there was more than fits."""
        found = await self._engine.running.peek(self.classes, after, until, LIMIT)
        self._remember(found)
        counts: dict[ClassId, int] = {}
        last: dict[ClassId, Instant] = {}
        for run in found:
            counts[run.class_id] = counts.get(run.class_id, 0) + 1
            last[run.class_id] = run.due
        return min((Instant(last[i] - MICROSECOND) for i, n in counts.items() if n >= LIMIT), default=until)

    def _remember(self, found: Iterable[Peeked]) -> None:
        for run in found:
            if run.due >= self._known.get(run.run_id, NEVER):
                continue
            key = self._classes[run.class_id]
            task = self._tasks.get(key.task)
            if task is not None:
                self._known[run.run_id] = run.due
                heapq.heappush(self._places[task.takes].soon, (run.due, next(self._order), run.run_id, key.priority))
