"""What the database knows of objects in storage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from oncue.domain.ids import RunId
from oncue.domain.instants import Instant
from oncue.domain.reference import Kind
from oncue.engines.port import LOOKED_AT_ONCE, SELDOM, UNUSED_FOR, KnownObject, Looked, StoredObject
from oncue.engines.sql import statements
from oncue.engines.sqlite.inserting import insert_many
from oncue.engines.sqlite.partitions import pieces
from oncue.engines.sqlite.store import Connection, Store, fetch, first

_SQL = statements("oncue.engines.sqlite")
OBJECTS = "key uid owner_id kind size made_at gone_at".split()
KINDS = frozenset[str](Kind)
OF_JOB = "job_id = ?1"
OF_RUN = "run_id = ?1"
OF_OTHER_RUNS = "job_id = ?1 and job_id <> run_id"


class SqliteObjects:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def add(self, objects: Sequence[StoredObject], now: Instant) -> None:
        def add(db: Connection) -> None:
            there = {one.key for one in objects if first(db, "select 1 from objects where key = ?", (one.key,))}
            new = [one for one in objects if one.key not in there]
            records = [(o.key, o.uid, o.owner.bytes, o.kind.value, o.size, now, now + UNUSED_FOR) for o in new]
            insert_many(db, "objects", OBJECTS, records)

        await self._store.write(add)

    async def look(self, now: Instant, limit: int = LOOKED_AT_ONCE) -> Looked:
        """Look without keeping writers waiting, then put off what is referred to."""

        def look(db: Connection) -> list[tuple[str, int, bool]]:
            due = "select key, owner_id, kind, made_at from objects where gone_at <= ? order by gone_at, key limit ?"
            return [
                (key, made_at, _is_referred(db, key, owner_id, kind))
                for key, owner_id, kind, made_at in fetch(db, due, (now, limit))
            ]

        found = await self._store.read(look)
        again = [
            (now + min(max(now - made_at, UNUSED_FOR), SELDOM), key) for key, made_at, referred in found if referred
        ]
        if again:
            put_off = "update objects set gone_at = ? where key = ?"
            await self._store.write(lambda db: db.executemany(put_off, again).fetchall())
        return Looked(len(found), tuple(key for key, _, referred in found if not referred))

    async def forget(self, keys: Sequence[str]) -> None:
        forget = "delete from objects where key = ?"
        await self._store.write(lambda db: db.executemany(forget, [(key,) for key in keys]).fetchall())

    async def known(self, keys: Sequence[str]) -> frozenset[str]:
        def known(db: Connection) -> frozenset[str]:
            return frozenset(key for key in keys if first(db, "select 1 from objects where key = ?", (key,)))

        return await self._store.read(known)

    async def walk(self, after: str, limit: int) -> Sequence[KnownObject]:
        found = await self._store.read(lambda db: fetch(db, _SQL["walk_objects"], (after, limit)))
        return [KnownObject(*row) for row in found]

    async def attach(self, run_id: RunId, token: int, lost: bytes, result: bytes) -> bool:
        def attach(db: Connection) -> bool:
            change = "update {} set result = ?4 where run_id = ?1 and token = ?2 and result = ?3 returning run_id"
            given = (run_id.bytes, token, lost, result)
            return any(fetch(db, change.format(piece.name), given) for piece in pieces(db))

        return await self._store.write(attach)


def _is_referred(db: Connection, key: str, owner_id: bytes, kind: str) -> bool:
    if kind not in KINDS:
        return True  # of a newer version: it knows where to look
    live = first(db, "select 1 from runs where run_id = ?", (owner_id,)) if kind != Kind.PAYLOAD else None
    if live is not None:
        return True  # it may still get its reference
    return any(
        first(db, _SQL["refers"].format(table=table, owner=owner, column=column), (owner_id, key))
        for table, owner, column in _places(db, Kind(kind))
    )


def _places(db: Connection, kind: Kind) -> Iterator[tuple[str, str, str]]:
    match kind:
        case Kind.PAYLOAD:
            yield from ((table, OF_JOB, "payload") for table in ("jobs", "job_versions", "dead"))
            for table in ("runs", *(piece.name for piece in pieces(db))):
                yield from ((table, owner, "payload") for owner in (OF_RUN, OF_OTHER_RUNS))
        case Kind.RESULT:
            yield from ((piece.name, OF_RUN, "result") for piece in pieces(db))
        case Kind.LOG:
            yield "run_logs", OF_RUN, "text"
