"""Looking ahead: what comes within half a second, read into memory so that it can be claimed on the instant.

A read reserves nothing. Three looks complete each other: a window that moves on with time and reads everything once, a
look where a hint points, and once a second a sweep over all that is due and still waits, which finds what the other
two have missed.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping

from oncue.clock import Clock
from oncue.domain.ids import ClassId, RunId
from oncue.domain.instants import MICROSECOND, MILLISECOND, NEVER, SECOND, Duration, Instant
from oncue.domain.placement import Offer, Priority, misfit, rank
from oncue.domain.run import Peeked
from oncue.engines.port import Engine
from oncue.tasks import Isolation, Tasks

AHEAD = Duration(500 * MILLISECOND)
POLL = Duration(250 * MILLISECOND)  # twice in what a look covers, so that a slow one leaves no hole
SWEEP = Duration(SECOND)
SPACING = Duration(10 * MILLISECOND)  # between looks, however many hints come
LIMIT = 10_000  # of each class in one look
ENOUGH = 2_000  # due and known, of one kind: no need to look for more
LONG_AGO = Instant(0)


class Place:
    """Where runs of one kind wait for their instant, and then for room."""

    def __init__(self) -> None:
        self.soon: list[tuple[Instant, int, RunId, Priority]] = []  # by due, then as they were found
        self.ready: list[tuple[Instant, int, RunId]] = []  # due, in order of rank
        self.seen = LONG_AGO  # everything due until then has been read once

    @property
    def hungry(self) -> bool:
        return len(self.ready) < ENOUGH

    def behind(self, now: Instant) -> bool:
        """Something due may not have been read, and there is use for it."""
        return self.seen < now and self.hungry

    def ripen(self, now: Instant) -> None:
        while self.soon and self.soon[0][0] <= now:
            due, order, run_id, priority = heapq.heappop(self.soon)
            heapq.heappush(self.ready, (rank(priority, due), order, run_id))


class Lookout:
    def __init__(self, engine: Engine, clock: Clock, tasks: Tasks, offer: Offer) -> None:
        self._engine = engine
        self._clock = clock
        self._offer = offer
        self._places = {kind: Place() for kind in Isolation}
        self._place_of_task = {task.name: self._places[task.takes] for task in tasks}
        self._classes: dict[ClassId, tuple[Place, Priority]] = {}
        self._known: dict[RunId, Instant] = {}
        self._order = itertools.count()
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
        """Read what is missing, if it is time to and there is use for it."""
        now = self._clock.now()
        hungry = self._hungry()
        if now < self._rest_until or not hungry:
            return
        asked, self._asked = self._asked, NEVER
        try:
            if now >= self._sweep_at:
                await self._refresh()
                await self._read(hungry, LONG_AGO, now)
                self._sweep_at = Instant(now + SWEEP)
            if asked < now + AHEAD:
                await self._refresh()
                await self._read(hungry, asked, Instant(now + AHEAD))
            if now >= self._look_at or any(place.behind(now) for place in hungry):
                await self._move_on(hungry, Instant(now + AHEAD))
                self._look_at = Instant(now + POLL)
        except BaseException:
            self._asked = min(self._asked, asked)
            raise
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
        if hungry := self._hungry():
            at_once = self._asked < now + AHEAD or any(place.behind(now) for place in hungry)
            look_at = LONG_AGO if at_once else min(self._look_at, self._sweep_at)
            wanted.append(max(look_at, self._rest_until))
        return Duration(max(min(wanted, default=NEVER) - now, 0))

    def _hungry(self) -> set[Place]:
        """Places that can use more, of those that some class leads to or may yet lead to."""
        return {place for place in self._place_of_task.values() if place.hungry}

    async def _refresh(self) -> None:
        """New classes appear with the first job that needs them."""
        known = await self._engine.jobs.classes()
        for class_id, key in known.items():
            if class_id not in self._classes and misfit(key, self._offer) is None:
                place = self._place_of_task[key.task]
                place.seen = LONG_AGO
                self._classes[class_id] = place, key.priority

    async def _move_on(self, hungry: set[Place], until: Instant) -> None:
        """The stretch that nobody has read yet; nearly always the same for every place, and then one read."""
        for seen in {min(place.seen, until) for place in hungry}:
            places = {place for place in hungry if min(place.seen, until) == seen}
            reached = await self._read(places, seen, until)
            for place in places:
                place.seen = reached.get(place, until)

    async def _read(self, places: set[Place], after: Instant, until: Instant) -> dict[Place, Instant]:
        """Into the places' memory. Returned are those of which there was more than fits, and how far it was read."""
        classes = [class_id for class_id, (place, _) in self._classes.items() if place in places]
        if not classes:
            return {}
        found = await self._engine.running.peek(classes, after, until, LIMIT)
        self._remember(found)
        counts = Counter(run.class_id for run in found)
        reached: dict[Place, Instant] = {}
        last = {run.class_id: run.due for run in found} if max(counts.values(), default=0) >= LIMIT else {}
        for class_id, due in last.items():
            if counts[class_id] >= LIMIT:
                place, _ = self._classes[class_id]
                reached[place] = min(reached.get(place, NEVER), Instant(due - MICROSECOND))
        return reached

    def _remember(self, found: Iterable[Peeked]) -> None:
        for run in found:
            if run.due < self._known.get(run.run_id, NEVER):
                place, priority = self._classes[run.class_id]
                self._known[run.run_id] = run.due
                heapq.heappush(place.soon, (run.due, next(self._order), run.run_id, priority))
