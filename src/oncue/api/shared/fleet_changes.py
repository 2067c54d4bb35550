"""Changes of workers and of paused queues, for event streams: found by comparing two small tables once a second."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from oncue.clock import Clock
from oncue.domain.ids import WorkerId
from oncue.domain.instants import Instant, rfc3339
from oncue.domain.placement import read_offer
from oncue.engines.port import Engine, Worker


class _Known(msgspec.Struct, frozen=True):
    workers: Mapping[WorkerId, tuple[Worker, str]]  # each with its status
    paused: Mapping[str, Instant]


class Found(msgspec.Struct, frozen=True):
    """What changed since the last look, and the queues that workers offer: their names are no secret."""

    workers: tuple[dict[str, Any], ...] = ()
    queues: tuple[dict[str, Any], ...] = ()
    offered: Collection[str] = ()


class FleetChanges:
    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self._known: _Known | None = None  # None: nobody has looked lately

    @property
    def looked(self) -> bool:
        return self._known is not None

    def forget(self) -> None:
        self._known = None

    async def look(self) -> Found:
        """Return what changed; the first time nothing has."""
        fleet, now = self._engine.fleet, self._clock.now()
        workers = {one.worker_id: (one, one.status(now).value) for one in await fleet.workers()}
        before, self._known = self._known, _Known(workers, await fleet.paused_queues())
        if before is None:
            return Found()
        offers = (read_offer(one.info) for one, _ in workers.values())
        return Found(
            tuple(_worker_changes(before.workers, workers)),
            tuple(_queue_changes(before.paused, self._known.paused)),
            {queue for offer in offers if offer is not None for queue in offer.queues},
        )


def _worker_changes(
    before: Mapping[WorkerId, tuple[Worker, str]], after: Mapping[WorkerId, tuple[Worker, str]]
) -> list[dict[str, Any]]:
    told = [_worker("left", one, None) for worker_id, (one, _) in before.items() if worker_id not in after]
    for worker_id, (one, status) in after.items():
        if worker_id not in before:
            told.append(_worker("joined", one, status))
        elif before[worker_id][1] != status:
            told.append(_worker(status, one, status))
    return told


def _worker(change: str, found: Worker, status: str | None) -> dict[str, Any]:
    return {
        "worker_id": found.worker_id,
        "name": found.name,
        "host": found.host,
        "change": change,
        "status": status,
        "seen_at": rfc3339(found.beat_at),
    }


def _queue_changes(before: Mapping[str, Instant], after: Mapping[str, Instant]) -> list[dict[str, Any]]:
    resumed = [{"name": name, "change": "resumed", "paused_since": None} for name in before.keys() - after.keys()]
    paused = [
        {"name": name, "change": "paused", "paused_since": rfc3339(after[name])}
        for name in after
        if before.get(name) != after[name]
    ]
    return sorted([*resumed, *paused], key=lambda one: str(one["name"]))
