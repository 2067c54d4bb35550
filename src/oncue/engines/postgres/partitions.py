"""Pieces of history: the partitions of each table that grows with time, made ahead and dropped whole."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Final, Literal, TypeVar

import asyncpg

from oncue.domain.errors import StoreUnavailable
from oncue.domain.instants import Duration, Instant
from oncue.engines.postgres.store import TRIES, Connection, Store
from oncue.engines.sql import statements

T = TypeVar("T")
Table = Literal["history", "ledger", "audit", "run_logs"]
TABLES: Final[tuple[Table, ...]] = ("history", "ledger", "audit", "run_logs")
LOCK = 0x706965636573  # "pieces"

_SQL = statements("oncue.engines.postgres")
# What a detach says when another process is at the same piece, or was this moment.
_ANOTHER_IS_AT_IT = (
    asyncpg.ObjectNotInPrerequisiteStateError,
    asyncpg.UndefinedTableError,
    asyncpg.DeadlockDetectedError,
)


class Partitions:
    def __init__(self, store: Store, width: Duration) -> None:
        self._store = store
        self._width = width
        self._known: dict[Table, list[tuple[int, int]]] = {table: [] for table in TABLES}

    async def write(
        self,
        table: Table,
        instants: Collection[Instant],
        work: Callable[[Connection], Awaitable[T]],
        *,
        hot: bool = False,
    ) -> T:
        """A transaction that may add rows to `table` at these instants."""
        return await self.fitting(table, instants, lambda: self._store.write(work, hot=hot))

    async def fitting(self, table: Table, instants: Collection[Instant], write: Callable[[], Awaitable[T]]) -> T:
        """The same for whatever writes. A piece that others dropped is made again."""
        for _ in range(TRIES):
            await self.ensure(table, instants)
            try:
                return await write()
            except asyncpg.CheckViolationError:  # no piece takes the row
                await self.refresh()
        raise StoreUnavailable(f"the {table} of that time is being dropped; the call can be repeated")

    async def ensure(self, table: Table, instants: Collection[Instant], timeout: Duration | None = None) -> None:
        """There is a piece for each of these. Costs next to nothing when they are known, as they nearly always are."""
        if not instants or self._covers(table, min(instants), max(instants)):
            return
        for at in instants:
            if not self._covers(table, at, at):
                await self._finish_drop(table, at, timeout)
                await self._store.write(partial(self._make, table, at), timeout=timeout)
                await self.refresh()

    async def refresh(self) -> None:
        found = [row for row in await self._store.fetch(_SQL["pieces"]) if row["attached"]]
        self._known = {
            table: [(row["from_at"], row["until_at"]) for row in reversed(found) if row["parent"] == table]
            for table in TABLES
        }

    async def drop_before(self, cutoff: Instant, timeout: Duration | None = None) -> int:
        """Drop every piece that ended before `cutoff`, and what earlier calls left half done; how many there were."""
        dropped = 0
        for row in await self._store.fetch(_SQL["pieces"]):
            if row["until_at"] <= cutoff or not row["attached"]:
                dropped += await self._drop(row["parent"], row["name"], timeout)
        await self.refresh()
        return dropped

    def _covers(self, table: Table, first: Instant, last: Instant) -> bool:
        return any(start <= first and last < end for start, end in self._known[table])

    async def _make(self, table: Table, at: Instant, connection: Connection) -> None:
        """Made apart, then attached: attaching does not wait for readers or writers of the table."""
        await connection.execute("select pg_advisory_xact_lock($1)", LOCK)
        start, end = at // self._width * self._width, (at // self._width + 1) * self._width
        for taken_from, taken_until in await connection.fetch(
            "select from_at, until_at from pieces where parent = $1 and from_at < $3 and until_at > $2",
            table,
            start,
            end,
        ):
            if taken_from <= at < taken_until:
                return  # somebody else was quicker
            start, end = (max(start, taken_until), end) if taken_until <= at else (start, min(end, taken_from))
        name = f"{table}_{start}"
        # Numbers are drawn from the whole table's sequence; PostgreSQL 17 refuses a piece that has one of its own.
        await connection.execute(f"create table {name} (like {table} including all excluding identity)")
        await connection.execute(f"alter table {table} attach partition {name} for values from ({start}) to ({end})")
        await connection.execute("insert into pieces values ($1, $2, $3, $4)", table, name, start, end)

    async def _finish_drop(self, table: Table, at: Instant, timeout: Duration | None) -> None:
        """Of a piece for this instant, if there is one half dropped: it is in the way of a new one."""
        for row in await self._store.fetch(_SQL["pieces"]):
            if row["parent"] == table and row["from_at"] <= at < row["until_at"] and not row["attached"]:
                await self._drop(row["parent"], row["name"], timeout)

    async def _drop(self, parent: str, name: str, timeout: Duration | None) -> bool:
        """Detached first, without stopping those who write to other pieces. Whoever finds one half done goes on there.

        No lock spans the steps: behind PgBouncer none could, and a detach refuses to be part of a transaction.
        """
        pending = "select inhdetachpending from pg_inherits where inhrelid = to_regclass($1)"
        for (begun,) in await self._store.fetch(pending, name):
            how = "finalize" if begun else "concurrently"
            try:
                await self._store.alone(f"alter table {parent} detach partition {name} {how}", timeout)
            except _ANOTHER_IS_AT_IT:
                return False
        return await self._store.write(partial(self._remove, name), timeout=timeout)

    async def _remove(self, name: str, connection: Connection) -> bool:
        """Unless another was quicker, and yet another has made it anew."""
        await connection.execute("select pg_advisory_xact_lock($1)", LOCK)
        if await connection.fetchval("select 1 from pg_inherits where inhrelid = to_regclass($1)", name):
            return False
        await connection.execute(f"drop table if exists {name}")
        return bool(await connection.fetch("delete from pieces where name = $1 returning name", name))
