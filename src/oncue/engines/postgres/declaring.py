"""Sets of declared jobs: what is there, what would be refused, and which declaration was applied last."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from oncue.domain.change import JobChange
from oncue.domain.errors import Superseded
from oncue.domain.ids import JobId, UserNumber
from oncue.domain.instants import Instant
from oncue.engines.admitting import UNKNOWN, StableKey
from oncue.engines.port import MOST_SETS, Creation, KeyedJob, KeyHolder, NewJob, Quota, SetStamp, StampGuard, Usage
from oncue.engines.postgres import rows
from oncue.engines.postgres.classes import refuse_classes
from oncue.engines.postgres.quotas import count
from oncue.engines.postgres.store import Connection, Store
from oncue.engines.rehearsing import Rehearsal
from oncue.engines.sql import statements

_SQL = statements("oncue.engines.postgres")

T = TypeVar("T")
Work = Callable[[Connection], Awaitable[T]]


class PostgresDeclaring:
    def __init__(self, store: Store, most_classes: int) -> None:
        self._store = store
        self._most_classes = most_classes

    async def keyed(self, uid: UserNumber, keys: Sequence[str]) -> dict[str, KeyedJob]:
        found = await self._store.fetch(_SQL["keyed_jobs"], uid, list(keys))
        return {
            row["key"]: KeyedJob(
                KeyHolder(row["held_by"], row["definition"]), None if row["job_id"] is None else rows.recurring(row)
            )
            for row in found
        }

    async def rehearse(
        self, new: Sequence[NewJob], changes: Sequence[JobChange] = (), quota: Quota | None = None
    ) -> list[Creation]:
        rehearsal = Rehearsal(new, changes, quota)
        return await self._store.read(lambda connection: _rehearse(connection, rehearsal, self._most_classes))

    async def stamp(self, uid: UserNumber, name: str) -> SetStamp | None:
        found = await self._store.fetch("select stamp, digest from sets where uid = $1 and name = $2", uid, name)
        return SetStamp(*found[0]) if found else None

    async def put_stamp(self, uid: UserNumber, name: str, stamp: SetStamp, now: Instant) -> bool:
        put = await self._store.fetch(_SQL["put_stamp"], uid, name, stamp.stamp, stamp.digest, now, MOST_SETS)
        return bool(put)


def only_under(guard: StampGuard | None, work: Work[T]) -> Work[T]:
    """Return work that checks its guard first, and holds it to its end. Superseded: the guard does not hold."""
    if guard is None:
        return work

    async def guarded(connection: Connection) -> T:
        given = (guard.uid, guard.name, guard.stamp.stamp, guard.stamp.digest)
        if not await connection.fetch(_SQL["hold_stamp"], *given):
            raise Superseded("the set has another stamp")
        return await work(connection)

    return guarded


async def _rehearse(connection: Connection, rehearsal: Rehearsal, most_classes: int) -> list[Creation]:
    holders = await _holders(connection, rehearsal.keys())
    bounds = await _bounds(connection, list(rehearsal.quotas))
    admission = rehearsal.admission(holders, bounds)
    if admission.over_quota:  # by bounds that are never too low: only a count can refuse
        counted = {
            uid: await count(connection, uid, rehearsal.quotas[uid], bounds[uid])
            for uid in sorted(admission.over_quota)
        }
        rehearsal.refuse_growth(counted)
        admission = rehearsal.admission(holders, bounds | counted)
    await refuse_classes(connection, rehearsal.classes, most_classes)
    return admission.answers


async def _holders(connection: Connection, keys: Sequence[StableKey]) -> dict[StableKey, JobId]:
    """Return which of these keys belong to an active or paused job."""
    if not keys:
        return {}
    uids, names = (list(column) for column in zip(*keys, strict=True))
    found = await connection.fetch(_SQL["key_holders"], uids, names)
    open_jobs = {row["job_id"] for row in await connection.fetch(_SQL["not_ended"], [row["job_id"] for row in found])}
    return {(row["uid"], row["key"]): row["job_id"] for row in found if row["job_id"] in open_jobs}


async def _bounds(connection: Connection, uids: Sequence[UserNumber]) -> dict[UserNumber, Usage]:
    found = await connection.fetch("select uid, jobs, payload, runs from quotas where uid = any($1::int[])", uids)
    known = {row["uid"]: Usage(row["jobs"], row["payload"], row["runs"]) for row in found}
    return dict.fromkeys(uids, UNKNOWN) | known
