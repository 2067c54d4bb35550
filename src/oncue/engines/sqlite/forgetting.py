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
from oncue.engines.redacting import redacted
from oncue.engines.sql import statements
from oncue.engines.sqlite.partitions import pieces
from oncue.engines.sqlite.store import Connection, Store, fetch, first

_SQL = statements("oncue.engines.sqlite")
_LEFT = {
    "job_keys": "uid, key",
    "job_tags": "uid, tag, job_id",
    "repeats_0": "uid, key_hash",
    "repeats_1": "uid, key_hash",
    "notify_defaults": "uid",
    "notify_targets": "uid, target",
    "notices_dropped": "uid",
    "webhook_secrets": "uid, url_hash",
    "sets": "uid, name",
    "errors": "uid, fingerprint",
    "error_counts": "rowid",
    "bulks": "bulk_id",
}
BEFORE_ALL = -(2**63)


class SqliteForgetting:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def begin(self, user_id: str, now: Instant) -> UserNumber | Revoked:
        return await self._store.write(lambda db: _begin(db, user_id, now))

    async def pending(self) -> Sequence[Forgotten]:
        return [Forgotten(*row) for row in await self._store.read(lambda db: fetch(db, _SQL["forgetting"]))]

    async def erase(self, uid: UserNumber, limit: int = ERASED_AT_ONCE) -> int:
        return await self._store.write(lambda db: _erase(db, uid, limit))

    async def redact(self, forgotten: Forgotten, limit: int = ERASED_AT_ONCE) -> Forgotten | None:
        return await self._store.write(lambda db: _redact(db, forgotten, limit))

    async def finish(self, uid: UserNumber) -> None:
        def finish(db: Connection) -> None:
            for table in ("keys", "forgetting"):
                db.execute(f"delete from {table} where uid = ?", (uid,))

        await self._store.write(finish)


def _begin(db: Connection, user_id: str, now: Instant) -> UserNumber | Revoked:
    found = first(db, "select uid from users where user_id = ?", (user_id,))
    found = found or first(db, "select uid from forgetting where user_id = ? order by uid desc", (user_id,))
    if found is None:
        return Revoked.UNKNOWN
    uid = UserNumber(found[0])
    working = fetch(db, _SQL["working_admin_keys"], (now,))
    own = fetch(db, "select key_id from keys where uid = ?", (uid,))
    if working and not set(working) - set(own):
        return Revoked.LAST_ADMIN
    db.execute("insert or ignore into forgetting (uid, user_id, asked_at) values (?, ?, ?)", (uid, user_id, now))
    db.execute("update users set user_id = ? where uid = ?", (number_name(uid), uid))
    db.execute("update keys set revoked_at = coalesce(revoked_at, ?) where uid = ?", (now, uid))
    return uid


def _erase(db: Connection, uid: UserNumber, limit: int) -> int:
    gone = 0
    for table, key in _LEFT.items():
        some = f"delete from {table} where ({key}) in (select {key} from {table} where uid = ? limit ?)"
        db.execute(some, (uid, limit))
        gone += db.changes()
    gone += _erase_notices(db, uid, limit)
    db.execute("delete from quotas where uid = ?", (uid,))
    db.execute(_SQL["erase_objects"], (uid, limit))
    left = first(db, "select count(*) from (select 1 from objects where uid = ? limit ?)", (uid, limit))
    assert left is not None, "a count"
    return gone + int(left[0])


def _erase_notices(db: Connection, uid: UserNumber, limit: int) -> int:
    gone = 0
    for piece in pieces(db):
        some = f"select run_id from {piece.name} where uid = ? and job_id = ? limit ?"
        found = fetch(db, some, (uid, NOTICES.bytes, limit - gone))
        for place in (piece.name, "run_logs"):
            db.executemany(f"delete from {place} where run_id = ?", found)
        gone += len(found)
    return gone


def _redact(db: Connection, forgotten: Forgotten, limit: int) -> Forgotten | None:
    after = unmark(forgotten.place, tuple[int, int]) if forgotten.place else (BEFORE_ALL, 0)
    found = fetch(db, _SQL["archive_audit"], (*after, 2**63 - 1, limit))
    if not found:
        return None
    for _, deed_id, uid, _, _, _, detail, address in found:
        if (changed := redacted(uid, detail, address, forgotten)) != (detail, address):
            db.execute("update audit set detail = ?, address = ? where deed_id = ?", (*changed, deed_id))
    place = mark(found[-1][:2])
    db.execute("update forgetting set place = ? where uid = ?", (place, forgotten.uid))
    return replace(forgotten, place=place)
