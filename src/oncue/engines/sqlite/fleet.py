"""Workers, their heartbeats and their tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

import msgspec

from oncue.domain.ids import ClassId, RunId, UserNumber, WorkerId
from oncue.domain.instants import Instant
from oncue.engines.port import Beat, CancelRequest, Task, Worker
from oncue.engines.sql import statements
from oncue.engines.sqlite import rows
from oncue.engines.sqlite.store import Connection, Store, fetch, first

_SQL = statements("oncue.engines.sqlite")


class SqliteFleet:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def register(self, worker: Worker, now: Instant) -> None:
        row = (
            worker.worker_id.bytes,
            worker.name,
            worker.host,
            worker.lease,
            worker.started_at,
            now,
            worker.draining,
            _json(worker.classes),
            worker.info,
            worker.drain_at,
        )

        def register(db: Connection) -> None:
            fetch(db, _SQL["register"], row)
            fetch(db, _SQL["name_worker"], (worker.worker_id.bytes, worker.name, now))

        await self._store.write(register)

    async def beat(
        self,
        worker_id: WorkerId,
        now: Instant,
        *,
        draining: bool = False,
        classes: Sequence[ClassId] | None = None,
        load: bytes | None = None,
    ) -> Beat | None:
        def beat(db: Connection) -> Beat | None:
            said = None if classes is None else _json(classes)
            known = first(db, _SQL["beat"], (now, draining, said, worker_id.bytes, load))
            if known is None:
                return None
            [(place, peers, alike_before, alike)] = fetch(db, _SQL["place"], (worker_id.bytes,))
            return Beat(place, peers, known[0], alike_before, alike)

        return await self._store.write(beat)

    async def cancel_requests(self, worker_id: WorkerId) -> tuple[CancelRequest, ...]:
        ask = _SQL["cancel_requests"]
        found = await self._store.read(lambda db: fetch(db, ask, (worker_id.bytes,)), hot=True)
        return tuple(CancelRequest(RunId(UUID(bytes=run_id))) for (run_id,) in found)

    async def expire_workers(self, silent: Mapping[WorkerId, Instant]) -> list[WorkerId]:
        def expire_workers(db: Connection) -> list[WorkerId]:
            each = silent.items()
            return [one for one, beat_at in each if first(db, _SQL["expire_workers"], (one.bytes, beat_at)) is not None]

        return await self._store.write(expire_workers)

    async def leave(self, worker_id: WorkerId) -> Worker | None:
        gone = await self._store.write(lambda db: first(db, _SQL["leave"], (worker_id.bytes,)))
        return None if gone is None else worker_of(gone)

    async def drain(self, worker_id: WorkerId, now: Instant) -> bool:
        given = (worker_id.bytes, now)
        return await self._store.write(lambda db: first(db, _SQL["drain"], given)) is not None

    async def undrain(self, worker_id: WorkerId) -> bool:
        return await self._store.write(lambda db: first(db, _SQL["undrain"], (worker_id.bytes,))) is not None

    async def workers(self) -> list[Worker]:
        return [worker_of(row) for row in await self._store.read(lambda db: fetch(db, _SQL["workers"]))]

    async def worker_names(self, worker_ids: Sequence[WorkerId]) -> dict[WorkerId, str]:
        def look(db: Connection) -> dict[WorkerId, str]:
            asked = "select name from worker_names where worker_id = ?"
            found = {worker_id: first(db, asked, (worker_id.bytes,)) for worker_id in worker_ids}
            return {worker_id: row[0] for worker_id, row in found.items() if row is not None}

        return await self._store.read(look)

    async def announce(self, tasks: Sequence[Task], now: Instant) -> None:
        announced = [(task.name, task.schema, task.defaults, _json(task.roles), now) for task in tasks]
        await self._store.write(lambda db: db.executemany(_SQL["announce"], announced).fetchall())

    async def tasks(self) -> list[Task]:
        found = await self._store.read(lambda db: fetch(db, _SQL["tasks"]))
        return [
            Task(name, schema, defaults, msgspec.json.decode(roles, type=tuple[str, ...]), at)
            for name, schema, defaults, roles, at in found
        ]

    async def pause_queue(self, queue: str, now: Instant, by: UserNumber | None = None) -> None:
        def pause(db: Connection) -> None:
            paused = "insert into queues (queue, paused_at) values (?, ?) on conflict do nothing returning queue"
            if first(db, paused, (queue, now)) is not None and by is not None:
                db.execute(
                    "insert or replace into paused_by (queue, paused_at, uid) values (?, ?, ?)", (queue, now, by)
                )

        await self._store.write(pause)

    async def resume_queue(self, queue: str, now: Instant) -> None:
        def resume(db: Connection) -> None:
            if first(db, "delete from queues where queue = ? returning queue", (queue,)) is not None:
                db.execute("insert or replace into resumed (queue, at) values (?, ?)", (queue, now))

        await self._store.write(resume)

    async def paused_queues(self) -> dict[str, Instant]:
        return dict(await self._store.read(lambda db: fetch(db, "select queue, paused_at from queues")))

    async def paused_by(self) -> dict[str, UserNumber]:
        return dict(await self._store.read(lambda db: fetch(db, _SQL["paused_by"])))


def _json(values: Sequence[object]) -> str:
    return msgspec.json.encode(values).decode()


def worker_of(row: rows.Row) -> Worker:
    worker_id, name, host, lease, started_at, beat_at, draining, classes, info, load, drain_at = row
    return Worker(
        worker_id=WorkerId(UUID(bytes=worker_id)),
        name=name,
        host=host,
        lease=lease,
        started_at=started_at,
        beat_at=beat_at,
        draining=bool(draining) or drain_at is not None,
        classes=msgspec.json.decode(classes, type=tuple[ClassId, ...]),
        info=info,
        load=load,
        drain_at=drain_at,
    )
