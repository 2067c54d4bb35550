"""The tables of a store that bench/filled_store.py fills, on each engine."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol
from uuid import UUID

import apsw
import asyncpg

from oncue.domain.ids import UserNumber
from oncue.domain.instants import HOUR, MINUTE, Duration, Instant
from oncue.engines.postgres.partitions import TABLES as PARTITIONED
from oncue.engines.postgres.partitions import Partitions as PostgresPartitions
from oncue.engines.postgres.store import Store
from oncue.engines.sqlite.partitions import Partitions as SqlitePartitions
from oncue.settings import Settings

MINUTES = 24 * 60  # of counts by the minute
HOURS = 9 * 24  # of counts by the hour
COUNTED_USERS = 50  # whose counts by the hour are there, beside the large user's
ROWS_AT_ONCE = 20_000

Step = Callable[[str, int, int], None]
Row = dict[str, Any]


class Tables(Protocol):
    def native(self, identifier: UUID) -> Any:
        """Return an id as the engine stores it."""
        ...

    async def prepare(self, instants: Sequence[Instant]) -> None:
        """Create the partitions of these instants."""
        ...

    async def naming(self, ids: Sequence[UUID], columns: Sequence[str]) -> list[tuple[str, Row]]:
        """Return all rows of all tables that have one of these ids in one of these columns."""
        ...

    async def write(self, rows: Mapping[str, list[list[Any]]]) -> None:
        """Write rows whose values are in the order of `naming`."""
        ...

    async def count(self, large: UserNumber, users: Sequence[UserNumber], now: Instant, step: Step) -> None:
        """Copy the counts of the jobs that exist to all users, and over time."""
        ...

    async def tidy(self, step: Step) -> None: ...

    async def keep_up(self, since: Instant, now: Instant, by: Duration) -> None:
        """Put off what became due in this time, as if schedulers and workers had been there and there were more."""
        ...

    async def close(self) -> None: ...


async def open_tables(url: str, settings: Settings) -> Tables:
    if url.startswith("sqlite"):
        return SqliteTables(url, settings)
    session = {"synchronous_commit": "off", "maintenance_work_mem": "512MB"}
    connection = await asyncpg.connect(url, server_settings=session)
    return PostgresTables(connection, await Store.connect(settings), settings)


class PostgresTables:
    def __init__(self, connection: asyncpg.Connection, store: Store, settings: Settings) -> None:
        self._connection = connection
        self._store = store
        self._pieces = PostgresPartitions(store, settings.partition_span)
        self._columns: dict[str, list[str]] = {}
        self._ids: set[tuple[str, str]] = set()
        self._indexes: list[asyncpg.Record] = []

    def native(self, identifier: UUID) -> UUID:
        return identifier

    async def prepare(self, instants: Sequence[Instant]) -> None:
        """Rows are copied without the indexes that guard nothing; `tidy` creates them again, in half the time."""
        for table in PARTITIONED:
            await self._pieces.ensure(table, instants)
        self._indexes = await self._connection.fetch(
            "select i.indexrelid::regclass::text as name,"
            " replace(pg_get_indexdef(i.indexrelid), ' ON ONLY ', ' ON ') as definition"
            " from pg_index i join pg_class c on c.oid = i.indexrelid"
            " where c.relnamespace = current_schema()::regnamespace and not c.relispartition and not i.indisunique"
        )
        for index in self._indexes:
            await self._connection.execute(f"drop index {index['name']}")

    async def naming(self, ids: Sequence[UUID], columns: Sequence[str]) -> list[tuple[str, Row]]:
        found: list[tuple[str, Row]] = []
        for table in await self._read_columns():
            those = [name for name in columns if (table, name) in self._ids]
            if those:
                where = " or ".join(f"{name} = any($1::uuid[])" for name in those)
                chosen = ", ".join(self._columns[table])
                rows = await self._connection.fetch(f"select {chosen} from {table} where {where}", ids)
                found += [(table, dict(row)) for row in rows]
        return found

    async def write(self, rows: Mapping[str, list[list[Any]]]) -> None:
        for table, records in rows.items():
            await self._connection.copy_records_to_table(table, records=records, columns=self._columns[table])

    async def count(self, large: UserNumber, users: Sequence[UserNumber], now: Instant, step: Step) -> None:
        for table, columns, made in _counts(await self._read_counts(large), large, users, now):
            await self._connection.execute(f"delete from {table}")
            for start in range(0, len(made), ROWS_AT_ONCE):
                some = made[start : start + ROWS_AT_ONCE]
                await self._connection.copy_records_to_table(table, records=some, columns=columns)
                step(f"counts: {table}", start + len(some), len(made))

    async def _read_counts(self, large: UserNumber) -> dict[str, list[Row]]:
        read = {"counters": f"select * from counters where uid = {large}"}
        read |= {name: f"select * from {name}" for name in ("series", "series_hours")}
        return {name: [dict(row) for row in await self._connection.fetch(text)] for name, text in read.items()}

    async def tidy(self, step: Step) -> None:
        chores = [*(index["definition"] for index in self._indexes), "vacuum analyze", "checkpoint"]
        for done, chore in enumerate(chores, 1):
            await self._connection.execute(chore)
            step("tidying the store", done, len(chores))

    async def keep_up(self, since: Instant, now: Instant, by: Duration) -> None:
        for table, columns in (("agenda", ["next_at"]), ("waiting", ["wanted", "due"])):
            await self._connection.execute(_put_off(table, columns, since, now, by))
        await self._connection.execute("vacuum agenda, waiting")

    async def close(self) -> None:
        await self._connection.close()
        await self._store.close()

    async def _read_columns(self) -> dict[str, list[str]]:
        """Read all tables with the columns that are not numbered by the database."""
        if not self._columns:
            rows = await self._connection.fetch(
                "select c.relname, a.attname, a.atttypid = 'uuid'::regtype"
                " from pg_class c join pg_attribute a on a.attrelid = c.oid"
                " where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p')"
                " and not c.relispartition and a.attnum > 0 and not a.attisdropped and a.attidentity = ''"
                " order by c.relname, a.attnum"
            )
            columns: dict[str, list[str]] = defaultdict(list)
            for table, name, is_id in rows:
                columns[table].append(name)
                if is_id:
                    self._ids.add((table, name))
            self._columns = dict(columns)
        return self._columns


class SqliteTables:
    def __init__(self, url: str, settings: Settings) -> None:
        self._db = apsw.Connection(url.removeprefix("sqlite:///"))
        self._db.set_busy_timeout(60_000)
        self._db.execute("pragma synchronous = off; pragma cache_size = -500000")
        self._pieces = SqlitePartitions(settings.partition_span)
        self._columns: dict[str, list[str]] = {}

    def native(self, identifier: UUID) -> bytes:
        return identifier.bytes

    async def prepare(self, instants: Sequence[Instant]) -> None:
        for at in instants:
            self._pieces.ensure(self._db, at)

    async def naming(self, ids: Sequence[UUID], columns: Sequence[str]) -> list[tuple[str, Row]]:
        """Partitions of history are one table here, `history`."""
        found: list[tuple[str, Row]] = []
        for table in self._tables():
            names = self._columns_of(table)
            those = [name for name in columns if name in names]
            for identifier in ids if those else ():
                where = " or ".join(f"{name} = ?1" for name in those)
                rows = self._db.execute(f"select {', '.join(names)} from {table} where {where}", (identifier.bytes,))
                known = "history" if table.startswith("history_") else table
                self._columns[known] = names
                found += [(known, dict(zip(names, row, strict=True))) for row in rows]
        return _once_each(found)

    async def write(self, rows: Mapping[str, list[list[Any]]]) -> None:
        await asyncio.to_thread(self._write, rows)

    def _write(self, rows: Mapping[str, list[list[Any]]]) -> None:
        with self._db:
            for table, records in rows.items():
                names = self._columns[table]
                for piece, some in self._by_piece(names, records) if table == "history" else ((table, records),):
                    marks = ", ".join("?" * len(names))
                    self._db.executemany(f"insert into {piece} ({', '.join(names)}) values ({marks})", some)

    def _by_piece(self, names: list[str], records: list[list[Any]]) -> Iterator[tuple[str, list[list[Any]]]]:
        ended, by_piece = names.index("ended_at"), defaultdict[str, list[list[Any]]](list)
        for record in records:
            by_piece[self._pieces.ensure(self._db, record[ended])].append(record)
        yield from by_piece.items()

    async def count(self, large: UserNumber, users: Sequence[UserNumber], now: Instant, step: Step) -> None:
        read = {"counters": f"select * from counters where uid = {large}"}
        read |= {name: f"select * from {name}" for name in ("series", "series_hours")}
        there = {name: self._dicts(text) for name, text in read.items()}
        for table, columns, made in _counts(there, large, users, now):
            with self._db:
                self._db.execute(f"delete from {table}")
                marks = ", ".join("?" * len(columns))
                self._db.executemany(f"insert into {table} ({', '.join(columns)}) values ({marks})", made)
            step(f"counts: {table}", len(made), len(made))

    def _dicts(self, text: str) -> list[Row]:
        found = self._db.execute(text)
        rows = list(found)
        if not rows:
            return []
        names = [one[0] for one in self._db.execute(text).get_description()]
        return [dict(zip(names, row, strict=True)) for row in rows]

    async def tidy(self, step: Step) -> None:
        await asyncio.to_thread(self._db.execute, "pragma wal_checkpoint(truncate)")
        step("tidying the store", 1, 1)

    async def keep_up(self, since: Instant, now: Instant, by: Duration) -> None:
        for table, columns in (("agenda", ["next_at"]), ("runs", ["wanted", "due"])):
            await asyncio.to_thread(self._db.execute, _put_off(table, columns, since, now, by))

    async def close(self) -> None:
        self._db.close()

    def _tables(self) -> list[str]:
        found = self._db.execute("select name from sqlite_master where type = 'table' and name not like 'sqlite_%'")
        return [name for (name,) in found]

    def _columns_of(self, table: str) -> list[str]:
        """Return the columns that are not numbered by the database."""
        columns = [(name, kind, key) for _, name, kind, _, _, key in self._db.execute(f"pragma table_info({table})")]
        keys = [name for name, kind, key in columns if key]
        [(text,)] = self._db.execute("select sql from sqlite_master where name = ?", (table,))
        rowid = keys if len(keys) == 1 and "without rowid" not in text else []
        return [name for name, kind, _ in columns if not (name in rowid and kind.lower() == "integer")]


def _put_off(table: str, columns: Sequence[str], since: Instant, now: Instant, by: Duration) -> str:
    moved = ", ".join(f"{name} = {name} + {by}" for name in columns)
    return f"update {table} set {moved} where {columns[0]} >= {since} and {columns[0]} < {now}"


def _once_each(found: list[tuple[str, Row]]) -> list[tuple[str, Row]]:
    seen = {(table, *row.values()): (table, row) for table, row in found}
    return list(seen.values())


def _counts(
    there: Mapping[str, list[Row]], large: UserNumber, users: Sequence[UserNumber], now: Instant
) -> Iterator[tuple[str, list[str], list[tuple[Any, ...]]]]:
    """Make the rows of each table of counts anew."""
    counters = [row | {"uid": uid} for row in there["counters"] for uid in (large, *users)]
    yield from _records("counters", counters)
    for table, width, steps in (("series", MINUTE, MINUTES), ("series_hours", HOUR, HOURS)):
        lines = {(row["uid"], row["class_id"], row["what"], row["bucket"]): row for row in there[table]}
        whose = [
            row | {"uid": uid}
            for row in lines.values()
            for uid in ((large, *users[:COUNTED_USERS]) if row["uid"] == large else (row["uid"],))
        ]
        spread = [row | {"at": (now // width - ago) * width} for row in whose for ago in range(steps)]
        yield from _records(table, spread)


def _records(table: str, rows: list[Row]) -> Iterator[tuple[str, list[str], list[tuple[Any, ...]]]]:
    if rows:
        yield table, list(rows[0]), [tuple(row.values()) for row in rows]
