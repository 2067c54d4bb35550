"""Notices, inserted by the transaction that settles; and whom users want told."""

from __future__ import annotations

from collections.abc import Sequence

from oncue.domain.ids import ClassId, UserNumber
from oncue.domain.instants import Instant
from oncue.domain.notices import fold
from oncue.domain.notify import NO_DEFAULT, NotifyDefault
from oncue.domain.placement import NOTICE_CLASS
from oncue.domain.run import NewRun, Settlement
from oncue.engines.port import Dropped, Generation, Target
from oncue.engines.postgres import lanes
from oncue.engines.postgres.classes import classes_for
from oncue.engines.postgres.inserting import insert_runs
from oncue.engines.postgres.store import Connection, Store
from oncue.engines.sql import statements
from oncue.engines.telling import (
    NOTHING_TOLD,
    Inserted,
    as_far_as_allowed,
    decode_default,
    encode_default,
    jobs_with_streak,
    known_streaks,
)

_SQL = statements("oncue.engines.postgres")


class PostgresNotices:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def add(self, runs: Sequence[NewRun], now: Instant) -> None:
        async def add(connection: Connection) -> None:
            touched = lanes.TouchedLanes(now)
            await insert_notices(connection, await new_ones(connection, runs), touched)
            await lanes.tend(connection, touched)

        await self._store.write(add)

    async def default(self, uid: UserNumber) -> NotifyDefault:
        found = await self._store.fetch("select said from notify_defaults where uid = $1", uid)
        return decode_default(found[0]["said"]) if found else NO_DEFAULT

    async def defaults(self, since: Instant) -> dict[UserNumber, NotifyDefault]:
        found = await self._store.fetch("select uid, said from notify_defaults where changed_at >= $1", since)
        return {row["uid"]: decode_default(row["said"]) for row in found}

    async def put_default(self, uid: UserNumber, default: NotifyDefault, now: Instant) -> None:
        await self._store.fetch(_SQL["put_default"], uid, now, encode_default(default))

    async def targets(self, uid: UserNumber) -> list[Target]:
        ask = "select target, shown, dead, muted_at from notify_targets where uid = $1 order by target limit 1000"
        return [Target(*row) for row in await self._store.fetch(ask, uid)]

    async def target_failed(self, uid: UserNumber, target: str, shown: str, most: int, now: Instant) -> Target:
        [row] = await self._store.fetch(_SQL["target_failed"], uid, target, shown, most, now)
        return Target(*row)

    async def target_reached(self, uid: UserNumber, target: str) -> None:
        await self._store.fetch("delete from notify_targets where uid = $1 and target = $2", uid, target)

    async def dropped(self, uid: UserNumber) -> Dropped:
        found = await self._store.fetch("select n, reported from notices_dropped where uid = $1", uid)
        return Dropped(*found[0]) if found else Dropped()

    async def dropped_reported(self, uid: UserNumber, total: int) -> None:
        await self._store.fetch("update notices_dropped set reported = $2 where uid = $1 and reported < $2", uid, total)

    async def generation(self, uid: UserNumber, url_hash: bytes) -> Generation:
        ask = "select generation, rotated_at from webhook_secrets where uid = $1 and url_hash = $2"
        found = await self._store.fetch(ask, uid, url_hash)
        return Generation(*found[0]) if found else Generation()

    async def rotate(self, uid: UserNumber, url_hash: bytes, now: Instant) -> Generation:
        [row] = await self._store.fetch(_SQL["rotate_secret"], uid, url_hash, now)
        return Generation(*row)


async def new_ones(connection: Connection, runs: Sequence[NewRun]) -> list[NewRun]:
    """Return the runs that do not wait already."""
    ask = "select run_id from waiting where run_id = any($1::uuid[])"
    there = {row["run_id"] for row in await connection.fetch(ask, [run.run_id for run in runs])} if runs else set()
    return [run for run in runs if run.run_id not in there]


async def tell(connection: Connection, settled: Sequence[Settlement], touched: lanes.TouchedLanes) -> Inserted:
    """Write streaks and insert the notices that fit them. The caller tends the lanes afterwards.

    Order of locks: the class, lanes, then streaks; the meters of notices come last, when the lanes are tended.
    """
    if not settled:
        return NOTHING_TOLD
    class_id = await notice_class(connection)
    await lanes.lock(connection, touched)
    concerned, begin = jobs_with_streak(settled)
    if begin:
        await connection.execute(_SQL["begin_streaks"], begin)
    found = await connection.fetch(_SQL["lock_streaks"], concerned) if concerned else []
    made, after = fold(settled, known_streaks(map(tuple, found)))
    kept = {job_id: streak for job_id, streak in after.items() if streak is not None}
    if over := sorted(after.keys() - kept.keys()):
        await connection.execute("delete from streaks where job_id = any($1::uuid[])", over)
    if kept:
        columns = [list(kept), [one.since for one in kept.values()], [one.runs for one in kept.values()]]
        await connection.execute(_SQL["put_streaks"], *columns)
    return await insert_notices(connection, made, touched, class_id)


async def notice_class(connection: Connection) -> ClassId:
    return (await classes_for(connection, {NOTICE_CLASS: None}, 0))[NOTICE_CLASS]


async def insert_notices(
    connection: Connection, runs: Sequence[NewRun], touched: lanes.TouchedLanes, class_id: ClassId | None = None
) -> Inserted:
    if not runs:
        return NOTHING_TOLD
    number = await notice_class(connection) if class_id is None else class_id
    users = sorted({run.uid for run in runs})
    open_now = {row["uid"]: row["n"] for row in await connection.fetch(_SQL["open_notices"], users, number)}
    kept, dropped = as_far_as_allowed(runs, number, open_now)
    touched.dropped.update(dropped)
    await insert_runs(connection, [(run, None) for run in kept], touched)
    return Inserted(len(kept), dropped.total())
