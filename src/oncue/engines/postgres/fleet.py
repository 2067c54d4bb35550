"""Workers, their heartbeats and their tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from asyncpg import Record

from oncue.domain.ids import ClassId, UserNumber, WorkerId
from oncue.domain.instants import Instant
from oncue.engines.port import Beat, CancelRequest, Task, Worker
from oncue.engines.postgres.store import Store
from oncue.engines.sql import statements

MOST_WOKEN = 10_000  # rows of the outbox that wait for a task when it is registered; more are retried a little later

_SQL = statements("oncue.engines.postgres")


class PostgresFleet:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def register(self, worker: Worker, now: Instant) -> None:
        await self._store.fetch(
            _SQL["register"],
            worker.worker_id,
            worker.name,
            worker.host,
            worker.lease,
            worker.started_at,
            now,
            worker.draining,
            worker.classes,
            worker.info,
            worker.drain_at,
            hot=True,
        )

    async def beat(
        self,
        worker_id: WorkerId,
        now: Instant,
        *,
        draining: bool = False,
        classes: Sequence[ClassId] | None = None,
        load: bytes | None = None,
    ) -> Beat | None:
        found = await self._store.fetch(_SQL["beat"], worker_id, now, draining, classes, load, hot=True)
        return Beat(*found[0]) if found else None

    async def cancel_requests(self, worker_id: WorkerId) -> tuple[CancelRequest, ...]:
        return tuple(
            CancelRequest(row["run_id"])
            for row in await self._store.fetch(_SQL["cancel_requests"], worker_id, hot=True)
        )

    async def expire_workers(self, silent: Mapping[WorkerId, Instant]) -> list[WorkerId]:
        found = await self._store.fetch(_SQL["expire_workers"], list(silent), list(silent.values()))
        return [row["worker_id"] for row in found]

    async def leave(self, worker_id: WorkerId) -> Worker | None:
        gone = await self._store.fetch("delete from workers where worker_id = $1 returning *", worker_id)
        return worker_of(gone[0]) if gone else None

    async def drain(self, worker_id: WorkerId, now: Instant) -> bool:
        return bool(await self._store.fetch(_SQL["drain"], worker_id, now))

    async def undrain(self, worker_id: WorkerId) -> bool:
        return bool(await self._store.fetch(_SQL["undrain"], worker_id))

    async def workers(self) -> list[Worker]:
        return [
            worker_of(row) for row in await self._store.fetch("select * from workers order by started_at, worker_id")
        ]

    async def worker_names(self, worker_ids: Sequence[WorkerId]) -> dict[WorkerId, str]:
        found = await self._store.fetch(_SQL["worker_names"], sorted(worker_ids))
        return {row["worker_id"]: row["name"] for row in found}

    async def announce(self, tasks: Sequence[Task], now: Instant) -> None:
        announced = sorted((task.name, task.schema, task.defaults, list(task.roles), now) for task in tasks)
        await self._store.write(lambda c: c.executemany(_SQL["announce"], announced))
        # Afterwards: a pass over the outbox that has not seen the tasks yet may still be writing what it keeps.
        await self._store.fetch(_SQL["outbox_wake"], [name for name, *_ in announced], MOST_WOKEN)

    async def tasks(self) -> list[Task]:
        found = await self._store.fetch("select * from tasks order by task")
        return [Task(r["task"], r["schema"], r["defaults"], tuple(r["roles"]), r["announced_at"]) for r in found]

    async def pause_queue(self, queue: str, now: Instant, by: UserNumber | None = None) -> None:
        await self._store.fetch(_SQL["pause_queue"], queue, now, by)

    async def resume_queue(self, queue: str, now: Instant) -> None:
        await self._store.fetch(_SQL["resume_queue"], queue, now)

    async def paused_queues(self) -> dict[str, Instant]:
        return {row["queue"]: row["paused_at"] for row in await self._store.fetch("select * from queues", hot=True)}

    async def paused_by(self) -> dict[str, UserNumber]:
        return {row["queue"]: row["uid"] for row in await self._store.fetch(_SQL["paused_by"])}


def worker_of(row: Record) -> Worker:
    return Worker(
        worker_id=row["worker_id"],
        name=row["name"],
        host=row["host"],
        lease=row["lease"],
        started_at=row["started_at"],
        beat_at=row["beat_at"],
        draining=row["draining"] or row["drain_at"] is not None,
        classes=tuple(row["classes"]),
        info=row["info"],
        load=row["load"],
        drain_at=row["drain_at"],
    )
