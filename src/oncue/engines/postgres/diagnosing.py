"""What can be wrong with the server: settings that lose commits, connections, old transactions, dead rows, rights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from oncue.domain.diagnosis import Diagnosis, ok, problem, warning
from oncue.domain.errors import StoreForbidden
from oncue.domain.instants import MINUTE, SECOND, Duration
from oncue.domain.plain_text import printable
from oncue.engines.postgres.hosts import name_of
from oncue.engines.postgres.store import Store
from oncue.engines.schema import named
from oncue.engines.sql import statements, tables

OLDEST_SUPPORTED = 15
OLD_TRANSACTION = Duration(5 * MINUTE)
MANY_DEAD_ROWS = 1_000_000
MANY_CONNECTIONS, NEARLY_ALL_CONNECTIONS = 0.8, 0.95

_SQL = statements("oncue.engines.postgres")


class Server(msgspec.Struct, frozen=True):
    version: int
    version_name: str
    fsync: str
    synchronous_commit: str
    connections: int
    most_connections: int
    may_create: bool
    name: str = "this machine"  # its host and port
    timeline: int | None = None
    old_primaries: tuple[str, ...] = ()
    oldest_transaction: Duration | None = None
    dead_rows: tuple[tuple[str, int], ...] = ()  # of tables with many


async def check_rights(store: Store) -> None:
    """Raise StoreForbidden, with the names of the tables, if this user may not read and write all of ours."""
    found = await store.fetch(_SQL["tables_without_rights"], sorted(tables("oncue.engines.postgres")))
    if found:
        raise StoreForbidden(
            f"this database user may not read and write these tables: {named([row[0] for row in found])}; grant the "
            "rights that ops/postgres/roles.sql lists"
        )


async def diagnose_server(store: Store) -> list[Diagnosis]:
    [row] = await store.fetch(_SQL["diagnose_server"])
    [(oldest,)] = await store.fetch(_SQL["oldest_transaction"])
    dead = await store.fetch(_SQL["diagnose_dead_rows"], MANY_DEAD_ROWS)
    name, timeline = store.server
    old = tuple(map(name_of, await store.lookout.old_primaries()))
    seen = {**row, "name": name, "timeline": timeline, "old_primaries": old, "oldest_transaction": oldest}
    return list(diagnoses(Server(**seen, dead_rows=tuple((table, rows) for table, rows in dead))))


def diagnoses(server: Server) -> Iterator[Diagnosis]:
    if server.version // 10_000 < OLDEST_SUPPORTED:
        yield problem(
            "version", f"PostgreSQL {server.version_name}", f"Upgrade to PostgreSQL {OLDEST_SUPPORTED} or later."
        )
    else:
        yield ok("version", f"PostgreSQL {server.version_name}")
    yield _primary(server)
    yield _durability(server)
    yield _connections(server)
    yield _oldest_transaction(server.oldest_transaction)
    yield _dead_rows(server.dead_rows)
    if server.may_create:
        yield ok("rights", "this database user may create tables")
    else:
        yield warning(
            "rights",
            "this database user may not create tables, as schedulers and `oncue migrate` must",
            "Use this user for APIs and workers only, or grant it CREATE on the schema.",
        )


def _primary(server: Server) -> Diagnosis:
    seen = server.name if server.timeline is None else f"{server.name}, on timeline {server.timeline}"
    if not server.old_primaries:
        return ok("primary", seen)
    return problem(
        "primary",
        f"{seen}; {' and '.join(server.old_primaries)} accept writes too, on an older one",
        "Stop the old primary, and rebuild it as a replica (pg_rewind or pg_basebackup): other programs may use it.",
    )


def _durability(server: Server) -> Diagnosis:
    off = [name for name in ("fsync", "synchronous_commit") if getattr(server, name) == "off"]
    if not off:
        return ok("durability", f"fsync {server.fsync}, synchronous_commit {server.synchronous_commit}")
    return problem(
        "durability",
        f"{' and '.join(off)} off: a crash can lose what was confirmed as stored",
        f"Set {' and '.join(f'{name} = on' for name in off)} in postgresql.conf, or for this database and role.",
    )


def _connections(server: Server) -> Diagnosis:
    seen = f"{server.connections} of {server.most_connections} connections in use"
    used = server.connections / max(1, server.most_connections)
    remedy = "Raise max_connections (14 for each process of oncue is always enough), or end other sessions."
    if used >= NEARLY_ALL_CONNECTIONS:
        return problem("connections", seen, remedy)
    return warning("connections", seen, remedy) if used >= MANY_CONNECTIONS else ok("connections", seen)


def _oldest_transaction(age: Duration | None) -> Diagnosis:
    if age is None or age < OLD_TRANSACTION:
        return ok("transactions", "none is older than 5 minutes")
    return warning(
        "transactions",
        f"one is open for {age // SECOND:,} s, and keeps dead rows from being removed",
        "Find it with `select * from pg_stat_activity order by xact_start` and end it; set "
        "idle_in_transaction_session_timeout for other applications.",
    )


def _dead_rows(tables: Sequence[tuple[str, int]]) -> Diagnosis:
    if not tables:
        return ok("dead rows", "no table has more than a million of them")
    return warning(
        "dead rows",
        ", ".join(f"{rows:,} in {printable(table)}" for table, rows in tables),
        "Check that autovacuum is on, and for an old transaction; then run `vacuum` on these tables.",
    )
