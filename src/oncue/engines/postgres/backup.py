"""Dumps the schema of a store to a file, and restores it into a schema that has no store."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import asyncpg
import msgspec

from oncue.domain.errors import OncueError
from oncue.domain.instants import DAY, Duration
from oncue.domain.plain_text import printable
from oncue.engines.backup import Contents, Restored, Tell, contents
from oncue.engines.postgres.connecting import Apart, Place, limits, options, read_address, unreadable_as_invalid
from oncue.engines.postgres.dialling import Dialling
from oncue.engines.postgres.migrate import LOCK, found_schema, migrate
from oncue.engines.postgres.programs import ProgramFailed, Programs
from oncue.engines.postgres.store import Store, as_unavailable, unavailable_at_start
from oncue.engines.schema import Schema, missing, named
from oncue.engines.sql import migrations, statements
from oncue.settings import Settings

LONGEST = Duration(7 * DAY)  # a statement of ours waits as long as the dump of a large store takes
RECORDS = ("oncue_migrations", "oncue_schema")  # tables that no migration creates

_PACKAGE = "oncue.engines.postgres"
_SQL = statements(_PACKAGE)

_CREATED = re.compile(r"create (?:or replace )?(?:\w+ )?(?:table|view|sequence) (?:if not exists )?(\w+)")

# A line of `pg_restore --list`: numbers, kind, schema (-: none), name, owner. Names may have spaces.
_SCHEMA_OF = re.compile(r"\d+; \d+ \d+ TABLE DATA (.+) oncue_schema .*")
_RECORDED = re.compile(r"^COPY [^\n]*\.(oncue_\w+) \([^\n]*\n(.*?)^\\\.$", re.DOTALL | re.MULTILINE)


class There(msgspec.Struct, frozen=True):
    """A session of its own at the server itself. `schema` None: the user's search_path leads to none."""

    connection: Apart
    schema: str | None
    programs: Programs
    bounced: bool
    folder: Path  # for files that the programs read, as long as the session lives


async def backup(settings: Settings, part: Path, tell: Tell) -> Contents:
    """Dump the store as it is at one instant; return what it contains."""
    async with _there(settings, "oncue backup") as there:
        await there.programs.check("pg_dump", newer=True)
        ask = there.connection
        schema = await found_schema(ask)
        if not schema.version or there.schema is None:
            where = f"the schema {printable(there.schema)}" if there.schema else "the search_path of this user"
            raise OncueError(f"{where} has no tables of oncue in this database: correct --engine")
        missing(migrations(_PACKAGE), schema, "this database")
        await ask.execute("begin isolation level repeatable read read only")
        await ask.execute(_SQL["hold_partitions"])
        tell("counting")
        found = await _contents(ask, schema.version)
        snapshot = await ask.fetchval("select pg_export_snapshot()")
        others = [] if _is_newer(schema) else await ask.fetch(_SQL["tables_of_others"], _ours())
        await there.programs.run(
            "pg_dump",
            "--format=custom",
            "--encoding=UTF8",
            f"--snapshot={snapshot}",
            f"--schema={_pattern(there.schema)}",
            *(f"--exclude-table={_pattern(there.schema)}.{_pattern(name)}" for (name,) in others),
            f"--file={part}",
            there.programs.target,
            tell=tell,
        )
    return found


async def restore(settings: Settings, file: Path, tell: Tell) -> Restored:
    """Restore a dump in one transaction, and migrate what it restored."""
    async with _there(settings, "oncue restore") as there:
        try:
            from_version = await _restore(there, file, tell)
        except ProgramFailed as failed:
            raise OncueError(
                f"{printable(str(file))} cannot be restored ({failed}): nothing was changed. If the file is damaged, "
                "use an older backup"
            ) from failed
    try:
        return Restored(await _migrated(settings, tell), from_version)
    except OncueError as no:
        raise OncueError(f"the backup is restored, but not migrated ({no}): run `oncue migrate`") from no


async def _restore(there: There, file: Path, tell: Tell) -> int:
    """Return the version of the schema that was restored. The session keeps its transaction, and so its lock."""
    await there.programs.check("pg_restore", newer=False)
    listed = await there.programs.run("pg_restore", "--list", str(file))
    schema = _dumped_schema(listed, file)
    before = await _recorded(there.programs, file, schema)
    missing(migrations(_PACKAGE), before, printable(str(file)))
    await there.connection.execute("begin")
    await _refuse_what_is_there(there, schema, file)
    wanted = there.folder / "list"
    wanted.write_text("\n".join(await _wanted(listed, schema, there.connection)))
    await there.programs.run(
        "pg_restore",
        "--exit-on-error",
        "--single-transaction",
        "--no-owner",
        f"--use-list={wanted}",
        there.programs.target,
        str(file),
        tell=tell,
    )
    return before.version


async def _migrated(settings: Settings, tell: Tell) -> Contents:
    tell("migrating")
    store = await Store.connect(settings)
    try:
        await migrate(store, settings.history_timeout)
    finally:
        await store.close()
    async with _there(settings, "oncue restore") as there:
        tell("analyzing")
        await there.connection.execute(_SQL["analyze"])
        tell("counting")
        return await _contents(there.connection, (await found_schema(there.connection)).version)


@asynccontextmanager
async def _there(settings: Settings, name: str) -> AsyncIterator[There]:
    address = read_address(settings.engine)
    url, dialling = address.listen_url or address.url, Dialling()
    place = Place(address.schema)
    bounced = address.bounced and address.listen_url is None
    given = options(settings.store_timeout, bounced, name, limits(LONGEST) | place.session)
    with unavailable_at_start(url), unreadable_as_invalid():
        connection = await dialling.connect(url, **given)
    try:
        if connection.get_server_pid() != await connection.fetchval("select pg_backend_pid()") and bounced:
            raise OncueError(
                "pg_dump and pg_restore need a session, which PgBouncer does not give them in transaction mode: add "
                "the address of PostgreSQL itself to the URL (&listen=HOST:PORT)"
            )
        for setting, value in (limits(LONGEST) | place.session).items():
            await connection.execute("select set_config($1, $2, false)", setting, value)
        schema = address.schema or await connection.fetchval("select current_schema()")
        with TemporaryDirectory() as folder, as_unavailable(asyncpg.PostgresError), _denied_as_error():
            programs = Programs(url, connection, name, Path(folder))
            yield There(connection, schema, programs, address.bounced, Path(folder))
            await connection.close()
    finally:
        connection.terminate()
        await dialling.close()


@contextmanager
def _denied_as_error() -> Iterator[None]:
    try:
        yield
    except asyncpg.InsufficientPrivilegeError as denied:
        raise OncueError(
            f"this database user has too few rights ({denied}): use the owner of the tables, as with `oncue migrate`"
        ) from denied


async def _contents(connection: Apart, version: int) -> Contents:
    counted = await connection.fetch(_SQL["contents"])
    return contents(version, ((kind, number, int(hashes)) for kind, number, hashes in counted))


def _is_newer(schema: Schema) -> bool:
    """Return whether there may be tables of ours that this code does not know."""
    return schema.version > migrations(_PACKAGE)[-1][0]


def _ours() -> list[str]:
    """Return the names of our tables, views and sequences, but for partitions."""
    return [*RECORDS, *{name for _, script in migrations(_PACKAGE) for name in _CREATED.findall(script)}]


def _pattern(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _dumped_schema(listed: str, file: Path) -> str:
    found = {line[1] for line in map(_SCHEMA_OF.fullmatch, listed.splitlines()) if line}
    if len(found) != 1:
        raise OncueError(f"{printable(str(file))} is not the dump of one store of oncue: name a file of `oncue backup`")
    return found.pop()


async def _recorded(programs: Programs, file: Path, schema: str) -> Schema:
    """Read which migrations the dumped store has had."""
    of = [f"--schema={schema}", *(f"--table={table}" for table in RECORDS)]
    said = await programs.run("pg_restore", "--data-only", "--file=-", *of, str(file))
    numbers = {table: [int(row) for row in rows.split()] for table, rows in _RECORDED.findall(said)}
    level = max(numbers.get("oncue_schema", []), default=0)
    applied = numbers.get("oncue_migrations") or range(1, level + 1)  # 0.1.0 did not record them
    return Schema(frozenset(applied), level)


async def _refuse_what_is_there(there: There, schema: str, file: Path) -> None:
    """Raise OncueError unless this URL leads to the schema of the dump, without a store and its processes.

    Until the transaction ends, processes that start wait with their migrations.
    """
    ask = there.connection
    if there.schema is None:  # the schema to which the search_path leads is not there yet
        await ask.execute("savepoint before")
        await ask.execute(f"create schema {_pattern(schema)}")
        place = await ask.fetchval("select current_schema()")
        await ask.execute("rollback to before")
    else:
        place = there.schema
    if place != schema:
        raise OncueError(
            f"{printable(str(file))} is a backup of the schema {printable(schema)}, and this URL leads to the schema "
            f"{printable(place or 'none')}: name it in the URL of this and every other command "
            f"(?schema={printable(schema)})"
        )
    await ask.execute(_SQL["lock"], LOCK)
    found = await ask.fetch(_SQL["tables_there"], schema, _ours())
    if found:
        raise OncueError(
            f"the schema {printable(schema)} of this database already has tables with the names of oncue's "
            f"({named([name for (name,) in found])}): name another database, or rename the schema "
            "(alter schema … rename to …)"
        )
    # PgBouncer keeps sessions of those that ended.
    running = [] if there.bounced else await ask.fetch(_SQL["processes_there"])
    if running:
        each = ", ".join(f"{name} ({count} connections)" for name, count in running)
        raise OncueError(f"processes of oncue use this database: {each}. Stop them, then repeat the restore")


async def _wanted(listed: str, schema: str, connection: Apart) -> Iterator[str]:
    """Yield what is to be restored: the schema, unless it exists, and those rights that this user may grant."""
    row = await connection.fetchrow(_SQL["rights_there"], schema)
    assert row is not None, "a row of functions"
    exists, owned, user = row

    def is_wanted(line: str) -> bool:
        if re.fullmatch(rf"\d+; \d+ \d+ (SCHEMA|COMMENT) - (SCHEMA )?{re.escape(schema)} .*", line):
            return not exists
        if re.fullmatch(rf"\d+; \d+ \d+ ACL - SCHEMA {re.escape(schema)} .*", line):
            return owned or not exists
        if re.fullmatch(r"\d+; \d+ \d+ DEFAULT ACL .*", line):
            return line.endswith(f" {user}")
        return True

    return (line for line in listed.splitlines() if is_wanted(line))
