"""Warn of jobs that no live worker can run. The workers are read at most twice a second for all who create jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from itertools import islice

from oncue.clock import Clock
from oncue.domain.errors import MOST_PROBLEMS, StoreUnavailable
from oncue.domain.explain import REASONS
from oncue.domain.ids import NO_CLASS
from oncue.domain.instants import SECOND, Duration, Instant
from oncue.domain.job import Spec
from oncue.domain.missing_workers import Offered, no_worker_for
from oncue.domain.placement import ClassKey, Mismatch, Resources, read_offer
from oncue.engines.port import Fleet, Worker

GOOD_FOR = Duration(SECOND // 2)
PATIENCE = 0.25  # seconds that an answer waits for the workers; without them it warns of nothing
MOST_KNOWN = 1_000  # classes
FIELDS = {
    Mismatch.NO_TASK: "task",
    Mismatch.NO_QUEUE: "queue",
    Mismatch.NO_LABELS: "labels",
    Mismatch.TOO_BIG: "resources",
}


class LiveWorkers:
    def __init__(self, fleet: Fleet, clock: Clock) -> None:
        self._fleet = fleet
        self._clock = clock
        self._reading: asyncio.Task[list[Offered] | None] | None = None
        self._read_at = Instant(0)  # by the monotonic clock
        self._known: dict[tuple[ClassKey, Resources], tuple[Mismatch, str] | None] = {}  # from this reading

    def look(self) -> asyncio.Task[list[Offered] | None]:
        """Begin to read the workers, unless that was done a moment ago. A write beside it need not wait for it."""
        now = self._clock.monotonic()
        if self._reading is None or now - self._read_at >= GOOD_FOR:
            self._read_at, self._known = now, {}
            self._reading = asyncio.create_task(self._read())
        return self._reading

    async def warnings(self, spec: Spec) -> list[dict[str, str]]:
        """Warn of a job that no live worker can run, in the words of `explain`."""
        return [warning for _, warning in self._warnings([(0, spec)], await self._workers())]

    async def of_many(self, jobs: Iterable[tuple[int, Spec]]) -> list[dict[str, str]]:
        """The same of many, each with its place in the request. Of those that are alike the first is named."""
        found = self._warnings(jobs, await self._workers())
        return [
            {**warning, "path": f"jobs.{index}.{warning['path']}"} for index, warning in islice(found, MOST_PROBLEMS)
        ]

    async def _workers(self) -> list[Offered] | None:
        """None: unknown."""
        looking = self.look()
        if not looking.done():
            await asyncio.wait((looking,), timeout=PATIENCE)
        return looking.result() if looking.done() else None

    def _warnings(
        self, jobs: Iterable[tuple[int, Spec]], workers: list[Offered] | None
    ) -> Iterator[tuple[int, dict[str, str]]]:
        if workers is None:
            return
        told, before = set[str](), None
        for index, spec in jobs:
            missing = None if spec is before else self._missing(spec, workers)
            before = spec
            if missing is not None and missing[1] not in told:
                told.add(missing[1])
                yield index, {"path": FIELDS[missing[0]], "code": REASONS[missing[0]], "message": missing[1]}

    def _missing(self, spec: Spec, workers: list[Offered]) -> tuple[Mismatch, str] | None:
        key = spec.class_key, spec.resources
        if key not in self._known:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[key] = no_worker_for(NO_CLASS, key[0], workers, self._clock.now(), key[1])
        return self._known[key]

    async def _read(self) -> list[Offered] | None:
        """None: unknown, also where a worker of another version does not say what it takes."""
        try:
            found = [offered(worker) for worker in await self._fleet.workers()]
        except StoreUnavailable:
            return None
        return found if all(one.offer is not None for one in found) else None


def offered(worker: Worker) -> Offered:
    live_until = Instant(worker.beat_at + worker.lease)
    return Offered(worker.classes, live_until, worker.draining, read_offer(worker.info))
