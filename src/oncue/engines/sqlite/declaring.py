"""Sets of declared jobs: what is there, what would be refused, and which declaration was applied last."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from oncue.domain.change import JobChange
from oncue.domain.errors import Superseded
from oncue.domain.ids import JobId, UserNumber
from oncue.domain.instants import Instant
from oncue.engines.admitting import StableKey
from oncue.engines.port import MOST_SETS, Creation, KeyedJob, KeyHolder, NewJob, Quota, SetStamp, StampGuard
from oncue.engines.rehearsing import Rehearsal
from oncue.engines.sql import statements
from oncue.engines.sqlite import rows
from oncue.engines.sqlite.classes import refuse_classes
from oncue.engines.sqlite.quotas import count, read_bound
from oncue.engines.sqlite.store import Connection, Store, first

_SQL = statements("oncue.engines.sqlite")


class SqliteDeclaring:
    def __init__(self, store: Store, most_classes: int) -> None:
        self._store = store
        self._most_classes = most_classes

    async def keyed(self, uid: UserNumber, keys: Sequence[str]) -> dict[str, KeyedJob]:
        def read(db: Connection) -> dict[str, KeyedJob]:
            held = {key: first(db, _SQL["key_holder"], (uid, key)) for key in keys}
            return {key: _keyed(db, *row) for key, row in held.items() if row is not None}

        return await self._store.read(read)

    async def rehearse(
        self, new: Sequence[NewJob], changes: Sequence[JobChange] = (), quota: Quota | None = None
    ) -> list[Creation]:
        rehearsal = Rehearsal(new, changes, quota)
        return await self._store.read(lambda db: _rehearse(db, rehearsal, self._most_classes))

    async def stamp(self, uid: UserNumber, name: str) -> SetStamp | None:
        find = "select stamp, digest from sets where uid = ? and name = ?"
        found = await self._store.read(lambda db: first(db, find, (uid, name)))
        return None if found is None else SetStamp(*found)

    async def put_stamp(self, uid: UserNumber, name: str, stamp: SetStamp, now: Instant) -> bool:
        row = (uid, name, stamp.stamp, stamp.digest, now, MOST_SETS)
        return await self._store.write(lambda db: first(db, _SQL["put_stamp"], row)) is not None


def require(db: Connection, guard: StampGuard | None) -> None:
    """Check the guard of a write. Superseded: it does not hold."""
    if guard is None:
        return
    if first(db, _SQL["has_stamp"], (guard.uid, guard.name, guard.stamp.stamp, guard.stamp.digest)) is None:
        raise Superseded("the set has another stamp")


def _keyed(db: Connection, job_id: bytes, definition: bytes | None) -> KeyedJob:
    found = first(db, _SQL["read_recurring"], (job_id,))
    return KeyedJob(KeyHolder(JobId(UUID(bytes=job_id)), definition), None if found is None else rows.job(found).job)


def _rehearse(db: Connection, rehearsal: Rehearsal, most_classes: int) -> list[Creation]:
    holders = _holders(db, rehearsal.keys())
    bounds = {uid: read_bound(db, uid) for uid in rehearsal.quotas}
    admission = rehearsal.admission(holders, bounds)
    if admission.over_quota:  # by bounds that are never too low: only a count can refuse
        refused = sorted(admission.over_quota)
        counted = {uid: count(db, uid, rehearsal.quotas[uid], bounds[uid]) for uid in refused}
        rehearsal.refuse_growth(counted)
        admission = rehearsal.admission(holders, bounds | counted)
    refuse_classes(db, rehearsal.classes, most_classes)
    return admission.answers


def _holders(db: Connection, keys: Sequence[StableKey]) -> dict[StableKey, JobId]:
    """Return which of these keys belong to an active or paused job."""
    held = [(key, first(db, _SQL["key_holder"], key)) for key in keys]
    return {
        key: JobId(UUID(bytes=row[0]))
        for key, row in held
        if row is not None and first(db, _SQL["has_not_ended"], row[:1]) is not None
    }
