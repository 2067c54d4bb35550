"""Who is told of runs that are due: a few of the workers that have room for them, so that the others can sleep."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from random import Random

import msgspec

from oncue.clock import Clock
from oncue.domain.ids import ClassId, WorkerId
from oncue.domain.instants import SECOND, Duration, Instant
from oncue.domain.load import read_load
from oncue.engines.hints import classes_of
from oncue.engines.port import Hint, Topic, Worker

FEW, MORE = 2, 4  # workers that one hint goes to
MANY_RUNS = 20  # in a hint, from which on it goes to MORE of them
REFRESH = Duration(3 * SECOND)  # between two looks at who has room: as often as workers say it
SILENT = 2  # of a lease: a worker without a heartbeat for half of it is likely to be dead


class Recipients:
    """The workers with room, as they said with their last heartbeats."""

    def __init__(
        self, workers: Callable[[], Awaitable[Sequence[Worker]]], clock: Clock, chance: Random | None = None
    ) -> None:
        self._workers = workers
        self._clock = clock
        self._chance = chance or Random()
        self._read_at: Instant | None = None
        self._there: list[tuple[str, frozenset[ClassId]]] = []
        self._by_class: dict[ClassId, list[str]] = {}

    async def addressed(self, hints: Iterable[Hint]) -> list[Hint]:
        """Return the hints, those that say of which classes runs are due once for each worker that gets them."""
        found = list[Hint]()
        for hint in hints:
            if hint.topic is Topic.RUNS and hint.target is None and classes_of(hint):
                await self._refresh()
                found += self._to_few(hint)
            else:
                found.append(hint)
        return found

    async def passed_on(self, hint: Hint, by: WorkerId) -> list[Hint]:
        await self._refresh()
        return [one for one in self._to_few(hint, but=str(by)) if one.target is not None]

    def _to_few(self, hint: Hint, but: str | None = None) -> Iterator[Hint]:
        """Yield a hint for each recipient, with its part of the runs, and one for everybody, if some have none."""
        many = len(hint.runs) >= MANY_RUNS or not hint.runs
        parts: dict[str | None, set[ClassId]] = {}
        for class_id in sorted(classes_of(hint)):
            for target in self._some_of(class_id, MORE if many else FEW, but):
                parts.setdefault(target, set()).add(class_id)
        for target, classes in parts.items():
            runs = tuple(run for run in hint.runs if run.class_id in classes)
            yield msgspec.structs.replace(hint, target=target, runs=runs, classes=() if runs else tuple(classes))

    def _some_of(self, class_id: ClassId, most: int, but: str | None) -> list[str] | list[None]:
        able = self._by_class.get(class_id)
        if able is None:
            able = self._by_class[class_id] = [name for name, classes in self._there if class_id in classes]
        others = [name for name in able if name != but]
        return self._chance.sample(others, min(most, len(others))) if others else [None]

    async def _refresh(self) -> None:
        now = self._clock.monotonic()
        if self._read_at is not None and now < self._read_at + REFRESH:
            return
        self._read_at, self._by_class = now, {}
        workers = await self._workers()
        latest = max((one.beat_at for one in workers), default=Instant(0))  # by the clock they beat by, not by ours
        alive = [one for one in workers if not one.draining and one.beat_at >= latest - one.lease // SILENT]
        self._there = [(str(one.worker_id), _room(one)) for one in alive]


def _room(worker: Worker) -> frozenset[ClassId]:
    load = read_load(worker.load)
    return frozenset(worker.classes).difference(() if load is None else load.full)
