"""What the archive reads and marks: partitions of history, and days of the tables that have none."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from oncue.domain.archive import Piece, Table
from oncue.domain.ids import UserNumber
from oncue.domain.instants import DAY, Duration, Instant
from oncue.domain.run import RunView
from oncue.engines.marks import page, unmark
from oncue.engines.port import EVERYBODY, ArchiveRow, Page
from oncue.engines.sql import statements
from oncue.engines.sqlite import rows
from oncue.engines.sqlite.audit import audit_entry
from oncue.engines.sqlite.store import Connection, Store, fetch, first

_SQL = statements("oncue.engines.sqlite")
IDS = {Table.LEDGER: "entry_id", Table.AUDIT: "deed_id"}
BEFORE_ALL = -(2**63)


class SqliteArchiving:
    def __init__(self, store: Store, timeout: Duration) -> None:
        self._store = store
        self._timeout = timeout

    async def next_piece(self, before: Mapping[Table, Instant]) -> Piece | None:
        def look(db: Connection) -> Piece | None:
            oldest = [_oldest(db, table, at) for table, at in before.items()]
            return min((piece for piece in oldest if piece), key=lambda piece: piece.until_at, default=None)

        return await self._store.read(look)

    async def rows(self, piece: Piece, limit: int, after: str | None = None) -> Page[ArchiveRow]:
        def read(db: Connection) -> Page[ArchiveRow]:
            match piece.table:
                case Table.HISTORY:
                    return _history(db, piece, limit, after)
                case Table.LEDGER:
                    found = _of_day(db, piece, limit, after)
                    return page(found, limit, _ledger_row, lambda row: (row[7], row[8]))
                case Table.AUDIT:
                    found = _of_day(db, piece, limit, after)
                    return page(found, limit, _audit_row, lambda row: row[:2])

        return await self._store.read(read)

    async def count(self, piece: Piece) -> int:
        count = _count_partition if piece.table is Table.HISTORY else _count_day
        return await self._store.read(lambda db: count(db, piece)[0])

    async def mark(self, piece: Piece, rows: int) -> bool:
        mark = _mark_partition if piece.table is Table.HISTORY else _mark_day
        return await self._store.write(lambda db: mark(db, piece, rows), self._timeout)


def _oldest(db: Connection, table: Table, before: Instant) -> Piece | None:
    return (_oldest_partition if table is Table.HISTORY else _oldest_day)(db, table, before)


def _oldest_partition(db: Connection, table: Table, before: Instant) -> Piece | None:
    which = "until_at <= ? and archived_rows is null"
    found = first(db, f"select name, from_at, until_at from pieces where {which} order by from_at limit 1", (before,))
    return None if found is None else Piece(table, *found)


def _oldest_day(db: Connection, table: Table, before: Instant) -> Piece | None:
    """The day of the oldest row. While rows are left that are marked, there is no other: they are deleted first."""
    found = first(db, f"select at, {IDS[table]} from {table} order by at limit 1")
    if found is None or _is_marked(db, table, *found):
        return None
    start = found[0] // DAY * DAY
    return Piece(table, table, start, Instant(start + DAY)) if start + DAY <= before else None


def _is_marked(db: Connection, table: Table, at: int, number: int) -> bool:
    marked = first(db, "select until_at, last_id from archived where table_name = ?", (table,))
    return marked is not None and at < marked[0] and number <= marked[1]


def _history(db: Connection, piece: Piece, limit: int, after: str | None) -> Page[ArchiveRow]:
    if first(db, "select 1 from pieces where name = ?", (piece.name,)) is None:
        return Page(())
    given = unmark(after, tuple[int, int, bytes]) if after else (BEFORE_ALL, 0, b"")
    found = fetch(db, _SQL["archive_history"].format(piece=piece.name), (*given, limit + 1))
    payloads: dict[tuple[bytes, int], bytes | None] = {}

    def read(row: rows.Row) -> ArchiveRow:
        run = rows.view(row)
        if run.spec is None:
            run = msgspec.structs.replace(run, payload=_payload(db, run, payloads))
        return ArchiveRow(run.uid, Instant(run.ended_at or 0), run)

    return page(found, limit, read, lambda row: (row[2], row[15], row[0]))


def _payload(db: Connection, run: RunView, known: dict[tuple[bytes, int], bytes | None]) -> bytes | None:
    version = (run.job_id.bytes, run.job_version)
    if version not in known:
        found = first(db, _SQL["definition"], version)
        known[version] = None if found is None else found[1]
    return known[version]


def _of_day(db: Connection, piece: Piece, limit: int, after: str | None) -> list[rows.Row]:
    at, number = unmark(after, tuple[int, int]) if after else (piece.from_at, BEFORE_ALL)
    return fetch(db, _SQL[f"archive_{piece.table}"], (at, number, piece.until_at, limit + 1))


def _ledger_row(row: rows.Row) -> ArchiveRow:
    *entry, at, _, uid = row
    return ArchiveRow(EVERYBODY if uid is None else UserNumber(uid), at, rows.entry(tuple(entry)))


def _audit_row(row: rows.Row) -> ArchiveRow:
    entry = audit_entry(row)
    return ArchiveRow(EVERYBODY if entry.uid is None else entry.uid, entry.at, entry)


def _count_partition(db: Connection, piece: Piece) -> tuple[int, bool]:
    """Return how many rows it has, and whether it is there."""
    if first(db, "select 1 from pieces where name = ?", (piece.name,)) is None:
        return 0, False
    return fetch(db, f"select count(*) from {piece.name}")[0][0], True


def _count_day(db: Connection, piece: Piece) -> tuple[int, int | None]:
    """Return how many rows it has, and the number of its last one."""
    counted = f"select count(*), max({IDS[piece.table]}) from {piece.table} where at >= ? and at < ?"
    [(found, last)] = fetch(db, counted, (piece.from_at, piece.until_at))
    return found, last


def _mark_partition(db: Connection, piece: Piece, count: int) -> bool:
    found, exists = _count_partition(db, piece)
    if not exists or found > count:
        return False
    db.execute("update pieces set archived_rows = ? where name = ?", (count, piece.name))
    return True


def _mark_day(db: Connection, piece: Piece, count: int) -> bool:
    found, last = _count_day(db, piece)
    if found > count or not found:
        return False
    db.execute(_SQL["mark_archived"], (piece.table, piece.until_at, last))
    return True
