"""What the archive reads and marks: partitions of history, of the ledger and of the audit log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

import msgspec
from asyncpg import Record

from oncue.domain.archive import Piece, Table
from oncue.domain.instants import Duration, Instant
from oncue.engines.marks import page, unmark
from oncue.engines.port import EVERYBODY, ArchiveRow, Page
from oncue.engines.postgres import rows
from oncue.engines.postgres.audit import audit_entry
from oncue.engines.postgres.store import Connection, Store
from oncue.engines.sql import statements

_SQL = statements("oncue.engines.postgres")
NOBODY = UUID(int=0)
BEFORE_ALL = -(2**63)


class PostgresArchiving:
    def __init__(self, store: Store, timeout: Duration) -> None:
        self._store = store
        self._timeout = timeout

    async def next_piece(self, before: Mapping[Table, Instant]) -> Piece | None:
        found = await self._store.fetch(_SQL["next_piece"], list(before), list(before.values()))
        return Piece(Table(found[0]["parent"]), *list(found[0])[1:]) if found else None

    async def rows(self, piece: Piece, limit: int, after: str | None = None) -> Page[ArchiveRow]:
        async def read(connection: Connection) -> Page[ArchiveRow]:
            if not await _exists(connection, piece):
                return Page(())
            match piece.table:
                case Table.HISTORY:
                    return await _history(connection, piece, limit, after)
                case Table.LEDGER:
                    return await _ledger(connection, piece, limit, after)
                case Table.AUDIT:
                    return await _audit(connection, piece, limit, after)

        return await self._store.read(read)

    async def count(self, piece: Piece) -> int:
        async def count(connection: Connection) -> int:
            return await _count(connection, piece) if await _exists(connection, piece) else 0

        return await self._store.write(count, timeout=self._timeout)

    async def mark(self, piece: Piece, rows: int) -> bool:
        async def mark(connection: Connection) -> bool:
            if not await _exists(connection, piece) or await _count(connection, piece) > rows:
                return False
            await connection.execute("update pieces set archived_rows = $2 where name = $1", piece.name, rows)
            return True

        return await self._store.write(mark, timeout=self._timeout)


async def _exists(connection: Connection, piece: Piece) -> bool:
    known = "select 1 from pieces where name = $1 and to_regclass($1) is not null"
    return bool(await connection.fetchval(known, piece.name))


async def _count(connection: Connection, piece: Piece) -> int:
    return int(await connection.fetchval(f"select count(*) from {piece.name}"))


async def _history(connection: Connection, piece: Piece, limit: int, after: str | None) -> Page[ArchiveRow]:
    given = unmark(after, tuple[int, int, UUID]) if after else (0, BEFORE_ALL, NOBODY)
    found = await connection.fetch(_SQL["archive_history"].format(piece=piece.name), *given, limit + 1)
    payloads = await _payloads(connection, [row for row in found if row["spec"] is None])

    def read(row: Record) -> ArchiveRow:
        run = rows.view(row)
        if run.spec is None:
            run = msgspec.structs.replace(run, payload=payloads.get((run.job_id, run.job_version)))
        return ArchiveRow(run.uid, row["ended_at"], run)

    return page(found, limit, read, lambda row: (row["uid"], row["ended_at"], row["run_id"]))


async def _payloads(connection: Connection, runs: Sequence[Record]) -> dict[tuple[UUID, int], bytes | None]:
    versions = sorted({(row["job_id"], row["job_version"]) for row in runs})
    if not versions:
        return {}
    found = await connection.fetch(_SQL["definitions"], *map(list, zip(*versions, strict=True)))
    return {(row["job_id"], row["version"]): row["payload"] for row in found}


async def _ledger(connection: Connection, piece: Piece, limit: int, after: str | None) -> Page[ArchiveRow]:
    given = unmark(after, tuple[UUID, int, int]) if after else (NOBODY, BEFORE_ALL, BEFORE_ALL)
    found = await connection.fetch(_SQL["archive_ledger"].format(piece=piece.name), *given, limit + 1)

    def read(row: Record) -> ArchiveRow:
        return ArchiveRow(EVERYBODY if row["uid"] is None else row["uid"], row["at"], rows.entry(row))

    return page(found, limit, read, lambda row: (row["job_id"], row["last_at"], row["entry_id"]))


async def _audit(connection: Connection, piece: Piece, limit: int, after: str | None) -> Page[ArchiveRow]:
    given = unmark(after, tuple[int, int]) if after else (BEFORE_ALL, 0)
    found = await connection.fetch(_SQL["archive_audit"].format(piece=piece.name), *given, limit + 1)

    def read(row: Record) -> ArchiveRow:
        return ArchiveRow(EVERYBODY if row["uid"] is None else row["uid"], row["at"], audit_entry(row))

    return page(found, limit, read, lambda row: (row["at"], row["deed_id"]))
