"""Partitions of history: of each table that grows with time, created ahead and dropped as a whole."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final, Literal, TypeVar

import asyncpg

from oncue.domain import archive
from oncue.domain.errors import StoreUnavailable
from oncue.domain.instants import Duration, Instant
from oncue.engines.postgres.store import TRIES, Connection, Store
from oncue.engines.sql import statements

T = TypeVar("T")
Table = Literal["history", "ledger", "audit", "run_logs"]
TABLES: Final[tuple[Table, ...]] = ("history", "ledger", "audit", "run_logs")
ARCHIVED = frozenset(map(str, archive.Table))
NO_OTHERS: Mapping[Table, Instant] = MappingProxyType({})
LOCK = 0x706965636573  # "pieces"

_SQL = statements("oncue.engines.postgres")
# The errors of a detach when another process detaches the same partition, or has just done so.
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
        """Run a transaction that may add rows to `table` at these instants."""
        return await self.fitting(table, instants, lambda: self._store.write(work, hot=hot))

    async def fitting(self, table: Table, instants: Collection[Instant], write: Callable[[], Awaitable[T]]) -> T:
        """Run any `write` that adds such rows. Creates a partition again that another process dropped."""
        for _ in range(TRIES):
            await self.ensure(table, instants)
            try:
                return await write()
            except asyncpg.CheckViolationError:  # no partition takes the row
                await self.refresh()
        raise StoreUnavailable(f"the {table} partition of that time is being dropped; retry the call")

    async def ensure(self, table: Table, instants: Collection[Instant], timeout: Duration | None = None) -> None:
        """Create missing partitions for these instants. Costs next to nothing for known ones, as nearly all are."""
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

    async def drop_before(
        self,
        cutoff: Instant,
        timeout: Duration | None = None,
        *,
        apart: Mapping[Table, Instant] = NO_OTHERS,
        archived: bool = False,
    ) -> int:
        """Drop partitions that ended before `cutoff`, and what earlier calls left half done; return how many.

        `apart`: tables with a cutoff of their own. `archived`: only what is in the archive, of the tables that it has.
        """
        dropped = 0
        for row in await self._store.fetch(_SQL["pieces"]):
            waits = archived and row["parent"] in ARCHIVED and row["archived_rows"] is None
            if (row["until_at"] <= apart.get(row["parent"], cutoff) or not row["attached"]) and not waits:
                dropped += await self._drop(row["parent"], row["name"], timeout)
        await self.refresh()
        return dropped

    def _covers(self, table: Table, first: Instant, last: Instant) -> bool:
        return any(start <= first and last < end for start, end in self._known[table])

    async def _make(self, table: Table, at: Instant, connection: Connection) -> None:
        """Create a partition apart, then attach it: attaching does not wait for readers or writers of the table."""
        await connection.execute(_SQL["lock"], LOCK)
        start, end = at // self._width * self._width, (at // self._width + 1) * self._width
        for taken_from, taken_until in await connection.fetch(
            "select from_at, until_at from pieces where parent = $1 and from_at < $3 and until_at > $2",
            table,
            start,
            end,
        ):
            if taken_from <= at < taken_until:
                return  # another process was faster
            start, end = (max(start, taken_until), end) if taken_until <= at else (start, min(end, taken_from))
        name = f"{table}_{start}"
        # Numbers are drawn from the whole table's sequence; PostgreSQL 17 refuses a partition that has its own.
        await connection.execute(f"create table {name} (like {table} including all excluding identity)")
        await connection.execute(f"alter table {table} attach partition {name} for values from ({start}) to ({end})")
        await connection.execute("insert into pieces values ($1, $2, $3, $4)", table, name, start, end)

    async def _finish_drop(self, table: Table, at: Instant, timeout: Duration | None) -> None:
        """Finish a half-done drop of the partition for this instant, if there is one: it blocks a new partition."""
        for row in await self._store.fetch(_SQL["pieces"]):
            if row["parent"] == table and row["from_at"] <= at < row["until_at"] and not row["attached"]:
                await self._drop(row["parent"], row["name"], timeout)

    async def _drop(self, parent: str, name: str, timeout: Duration | None) -> bool:
        """Detach, then drop, without blocking writers of other partitions. A half-done drop is continued.

        No lock spans the steps: behind PgBouncer none could, and a detach cannot be part of a transaction.
        """
        pending = "select inhdetachpending from pg_inherits where inhrelid = to_regclass($1)"
        for (begun,) in await self._store.fetch(pending, name):
            how = "finalize" if begun else "concurrently"
            try:
                at = self._store.place.quoted  # named, because behind PgBouncer this session has no search_path
                await self._store.alone(f"alter table {at}.{parent} detach partition {at}.{name} {how}", timeout)
            except _ANOTHER_IS_AT_IT:
                return False
        return await self._store.write(partial(self._remove, name), timeout=timeout)

    async def _remove(self, name: str, connection: Connection) -> bool:
        """Remove the table, unless another process did so and a third one has created it again.

        One that has got a row since it was archived stays, to be archived again: now nobody can add another.
        """
        await connection.execute(_SQL["lock"], LOCK)
        if await connection.fetchval("select 1 from pg_inherits where inhrelid = to_regclass($1)", name):
            return False
        rows = await connection.fetchval("select archived_rows from pieces where name = $1", name)
        if rows is not None and await connection.fetchval(f"select count(*) from {name}") > rows:
            await connection.execute("update pieces set archived_rows = null where name = $1", name)
            return False
        await connection.execute(f"drop table if exists {name}")
        return bool(await connection.fetch("delete from pieces where name = $1 returning name", name))
