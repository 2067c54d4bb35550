"""Pieces of history: the partitions of each table that grows with time, made ahead and dropped whole."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Final, Literal

from oncue.domain.instants import Duration, Instant
from oncue.engines.postgres.store import Connection, Store

Table = Literal["history", "ledger", "audit", "run_logs"]
TABLES: Final[tuple[Table, ...]] = ("history", "ledger", "audit", "run_logs")
LOCK = 0x706965636573  # "pieces"


class Pieces:
    def __init__(self, store: Store, width: Duration, timeout: Duration) -> None:
        self._store = store
        self._width = width
        self._timeout = timeout
        self._known: dict[Table, list[tuple[int, int]]] = {table: [] for table in TABLES}

    async def ensure(self, table: Table, instants: Collection[Instant]) -> None:
        """There is a piece for each of these. Costs next to nothing when they are known, as they nearly always are."""
        if not instants or self._covers(table, min(instants), max(instants)):
            return
        for at in instants:
            if not self._covers(table, at, at):
                await self._store.write(partial(self._make, table, at), timeout=self._timeout)
                await self.refresh()

    async def refresh(self) -> None:
        rows = await self._store.fetch("select parent, from_at, until_at from pieces order by from_at desc")
        self._known = {table: [(r["from_at"], r["until_at"]) for r in rows if r["parent"] == table] for table in TABLES}

    async def drop_before(self, cutoff: Instant) -> int:
        """Drop every piece that ended before `cutoff`. Detached first, without stopping those who write to others."""
        rows = await self._store.fetch("select parent, name from pieces where until_at <= $1 order by until_at", cutoff)
        for parent, name in rows:
            await self._drop(parent, name)
        await self.refresh()
        return len(rows)

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
        await connection.execute(f"create table {name} (like {table} including all)")
        await connection.execute(f"alter table {table} attach partition {name} for values from ({start}) to ({end})")
        await connection.execute("insert into pieces values ($1, $2, $3, $4)", table, name, start, end)

    async def _drop(self, parent: str, name: str) -> None:
        """Three steps outside a transaction; whoever finds one half done goes on from there."""
        async with self._store.connection(timeout=self._timeout) as connection:
            await connection.execute("select pg_advisory_lock($1)", LOCK)
            try:
                how = await connection.fetchval(
                    "select inhdetachpending from pg_inherits where inhrelid = to_regclass($1)", name
                )
                if how is not None:
                    await connection.execute(
                        f"alter table {parent} detach partition {name} {'finalize' if how else 'concurrently'}"
                    )
                await connection.execute(f"drop table if exists {name}")
                await connection.execute("delete from pieces where name = $1", name)
            finally:
                await connection.execute("select pg_advisory_unlock($1)", LOCK)
