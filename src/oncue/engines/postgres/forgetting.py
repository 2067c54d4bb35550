"""Forgetting a user for good."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from oncue.domain.ids import NOTICES, UserNumber
from oncue.domain.instants import Instant
from oncue.domain.keys import number_name
from oncue.engines.marks import mark, unmark
from oncue.engines.port import Forgotten, Revoked
from oncue.engines.port.forgetting import ERASED_AT_ONCE
from oncue.engines.postgres.store import Connection, Store
from oncue.engines.redacting import redacted
from oncue.engines.sql import statements

_SQL = statements("oncue.engines.postgres")
_LEFT = (
    *("job_keys", "job_tags", "repeats_0", "repeats_1"),
    *("notify_defaults", "notify_targets", "notices_dropped", "webhook_secrets", "sets"),
    *("errors", "error_counts", "bulks", "outbox", "enqueue_keys", "db_grants"),
)
BEFORE_ALL = -(2**63)


class PostgresForgetting:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def begin(self, user_id: str, now: Instant) -> UserNumber | Revoked:
        return await self._store.write(lambda c: _begin(c, user_id, now))

    async def pending(self) -> Sequence[Forgotten]:
        return [Forgotten(*row) for row in await self._store.fetch(_SQL["forgetting"])]

    async def erase(self, uid: UserNumber, limit: int = ERASED_AT_ONCE) -> int:
        return await self._store.write(lambda c: _erase(c, uid, limit))

    async def redact(self, forgotten: Forgotten, limit: int = ERASED_AT_ONCE) -> Forgotten | None:
        return await self._store.write(lambda c: _redact(c, forgotten, limit))

    async def finish(self, uid: UserNumber) -> None:
        async def finish(connection: Connection) -> None:
            for table in ("keys", "forgetting"):
                await connection.execute(f"delete from {table} where uid = $1", uid)

        await self._store.write(finish)


async def _begin(connection: Connection, user_id: str, now: Instant) -> UserNumber | Revoked:
    """Locks the admin keys first, as a revocation does."""
    working = {row["key_id"] for row in await connection.fetch(_SQL["lock_working_admin_keys"], now)}
    uid = await connection.fetchval("select uid from users where user_id = $1 for update", user_id)
    if uid is None:
        begun = "select uid from forgetting where user_id = $1 order by uid desc limit 1"
        uid = await connection.fetchval(begun, user_id)
    if uid is None:
        return Revoked.UNKNOWN
    own = {row["key_id"] for row in await connection.fetch("select key_id from keys where uid = $1", uid)}
    if working and not working - own:
        return Revoked.LAST_ADMIN
    note = "insert into forgetting (uid, user_id, asked_at) values ($1, $2, $3) on conflict do nothing"
    await connection.execute(note, uid, user_id, now)
    await connection.execute("update users set user_id = $2 where uid = $1", uid, number_name(uid))
    await connection.execute("update keys set revoked_at = coalesce(revoked_at, $2) where uid = $1", uid, now)
    return UserNumber(uid)


async def _erase(connection: Connection, uid: UserNumber, limit: int) -> int:
    gone = 0
    for table in _LEFT:
        some = (
            f"delete from {table} where ctid = any(array(select ctid from {table} where uid = $1 limit $2)) returning 1"
        )
        gone += len(await connection.fetch(some, uid, limit))
    notices = [row["run_id"] for row in await connection.fetch(_SQL["erase_notices"], uid, NOTICES, limit)]
    await connection.execute("delete from run_logs where run_id = any($1::uuid[])", notices)
    await connection.execute("delete from quotas where uid = $1", uid)
    await connection.execute(_SQL["erase_objects"], uid, limit)
    left = "select count(*) from (select from objects where uid = $1 limit $2) few"
    return gone + len(notices) + int(await connection.fetchval(left, uid, limit))


async def _redact(connection: Connection, forgotten: Forgotten, limit: int) -> Forgotten | None:
    after = unmark(forgotten.place, tuple[int, int]) if forgotten.place else (BEFORE_ALL, 0)
    found = await connection.fetch(_SQL["archive_audit"].format(piece="audit"), *after, limit)
    if not found:
        return None
    change = "update audit set detail = $3, address = $4 where at = $1 and deed_id = $2"
    for row in found:
        changed = redacted(row["uid"], row["detail"], row["address"], forgotten)
        if changed != (row["detail"], row["address"]):
            await connection.execute(change, row["at"], row["deed_id"], *changed)
    place = mark((found[-1]["at"], found[-1]["deed_id"]))
    await connection.execute("update forgetting set place = $2 where uid = $1", forgotten.uid, place)
    return replace(forgotten, place=place)
