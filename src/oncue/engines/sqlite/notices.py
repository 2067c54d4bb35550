"""Notices, inserted by the transaction that settles; and whom users want told."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from oncue.domain.ids import ClassId, JobId, UserNumber
from oncue.domain.instants import Instant
from oncue.domain.notices import fold
from oncue.domain.notify import NO_DEFAULT, NotifyDefault
from oncue.domain.placement import NOTICE_CLASS
from oncue.domain.run import NewRun, Settlement
from oncue.engines.port import Dropped, Generation, Target
from oncue.engines.sql import statements
from oncue.engines.sqlite import rows
from oncue.engines.sqlite.classes import classes_for
from oncue.engines.sqlite.inserting import insert_runs
from oncue.engines.sqlite.lanes import tend
from oncue.engines.sqlite.store import Connection, Store, fetch, first
from oncue.engines.telling import (
    NOTHING_TOLD,
    Inserted,
    as_far_as_allowed,
    decode_default,
    encode_default,
    jobs_with_streak,
    known_streaks,
)
from oncue.engines.touched import TouchedLanes

_SQL = statements("oncue.engines.sqlite")


class SqliteNotices:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def add(self, runs: Sequence[NewRun], now: Instant) -> None:
        def add(db: Connection) -> None:
            touched = TouchedLanes(now)
            insert_notices(db, new_ones(db, runs), touched)
            tend(db, touched)

        await self._store.write(add)

    async def default(self, uid: UserNumber) -> NotifyDefault:
        ask = "select said from notify_defaults where uid = ?"
        row = await self._store.read(lambda db: first(db, ask, (uid,)))
        return NO_DEFAULT if row is None else decode_default(row[0])

    async def defaults(self, since: Instant) -> dict[UserNumber, NotifyDefault]:
        ask = "select uid, said from notify_defaults where changed_at >= ?"
        found = await self._store.read(lambda db: fetch(db, ask, (since,)))
        return {uid: decode_default(said) for uid, said in found}

    async def put_default(self, uid: UserNumber, default: NotifyDefault, now: Instant) -> None:
        given = (uid, now, encode_default(default))
        await self._store.write(lambda db: fetch(db, _SQL["put_default"], given))

    async def targets(self, uid: UserNumber) -> list[Target]:
        ask = "select target, shown, dead, muted_at from notify_targets where uid = ? order by target limit 1000"
        return [Target(*row) for row in await self._store.read(lambda db: fetch(db, ask, (uid,)))]

    async def target_failed(self, uid: UserNumber, target: str, shown: str, most: int, now: Instant) -> Target:
        given = (uid, target, shown, most, now)
        [row] = await self._store.write(lambda db: fetch(db, _SQL["target_failed"], given))
        return Target(*row)

    async def target_reached(self, uid: UserNumber, target: str) -> None:
        forget = "delete from notify_targets where uid = ? and target = ?"
        await self._store.write(lambda db: fetch(db, forget, (uid, target)))

    async def dropped(self, uid: UserNumber) -> Dropped:
        ask = "select n, reported from notices_dropped where uid = ?"
        row = await self._store.read(lambda db: first(db, ask, (uid,)))
        return Dropped() if row is None else Dropped(*row)

    async def dropped_reported(self, uid: UserNumber, total: int) -> None:
        note = "update notices_dropped set reported = ?2 where uid = ?1 and reported < ?2"
        await self._store.write(lambda db: fetch(db, note, (uid, total)))

    async def generation(self, uid: UserNumber, url_hash: bytes) -> Generation:
        ask = "select generation, rotated_at from webhook_secrets where uid = ? and url_hash = ?"
        row = await self._store.read(lambda db: first(db, ask, (uid, url_hash)))
        return Generation() if row is None else Generation(*row)

    async def rotate(self, uid: UserNumber, url_hash: bytes, now: Instant) -> Generation:
        given = (uid, url_hash, now)
        [row] = await self._store.write(lambda db: fetch(db, _SQL["rotate_secret"], given))
        return Generation(*row)


def new_ones(db: Connection, runs: Sequence[NewRun]) -> list[NewRun]:
    """Return the runs that neither wait nor run already."""
    if not runs:
        return []
    asked = (rows.blobs(run.run_id.bytes for run in runs),)
    there = {run_id for (run_id,) in fetch(db, _SQL["there"].format(table="runs", key="run_id"), asked)}
    return [run for run in runs if run.run_id.bytes not in there]


def tell(db: Connection, settled: Sequence[Settlement], touched: TouchedLanes) -> Inserted:
    """Write streaks and insert the notices that fit them. The caller tends the lanes afterwards."""
    if not settled:
        return NOTHING_TOLD
    concerned, _ = jobs_with_streak(settled)
    asked = (rows.blobs(job_id.bytes for job_id in concerned),) if concerned else None
    found = [] if asked is None else fetch(db, _SQL["streaks"], asked)
    made, after = fold(settled, known_streaks((JobId(UUID(bytes=job_id)), *rest) for job_id, *rest in found))
    for job_id, streak in after.items():
        if streak is None:
            db.execute("delete from streaks where job_id = ?", (job_id.bytes,))
        else:
            db.execute(_SQL["put_streak"], (job_id.bytes, streak.since, streak.runs))
    return insert_notices(db, made, touched)


def insert_notices(db: Connection, runs: Sequence[NewRun], touched: TouchedLanes) -> Inserted:
    if not runs:
        return NOTHING_TOLD
    class_id: ClassId = classes_for(db, {NOTICE_CLASS: None}, 0)[NOTICE_CLASS]
    users = {run.uid for run in runs}
    open_now = {uid: fetch(db, _SQL["open_notices"], (uid, class_id))[0][0] for uid in users}
    kept, dropped = as_far_as_allowed(runs, class_id, open_now)
    touched.dropped.update(dropped)
    insert_runs(db, [(run, None) for run in kept], touched)
    return Inserted(len(kept), dropped.total())
