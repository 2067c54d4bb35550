"""`oncue archive`: look into the archive of history, check it, and get rows out of it."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import click

from oncue.cli.groups import Group
from oncue.cli.output import json_option
from oncue.cli.printing import print_json, print_table, say
from oncue.cli.refusing import REFUSED, confirm
from oncue.cli.roles import options, storing
from oncue.cli.settings_options import STORAGE_SERVICE, WHERE, options_named
from oncue.domain.archive import Manifest, Progress, Skipped, Table
from oncue.domain.errors import Invalid, NotFound
from oncue.domain.reference import Reference

if TYPE_CHECKING:
    from oncue.engines.port import Engine
    from oncue.settings import Settings
    from oncue.storage.port import Storage

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

EXAMPLES = """\b
Examples:
  oncue archive list --archive s3://bucket/oncue
  oncue archive verify --archive s3://bucket/oncue
  duckdb -c "$(oncue archive sql --archive s3://bucket/oncue)"
  oncue archive export --user ada --archive s3://bucket/oncue > ada.jsonl

The database knows the newest file list of the archive; each list names the one before it. So these commands need both:
--engine and --archive, or ONCUE_ENGINE and ONCUE_ARCHIVE.
"""
TABLE = click.option(
    "--table",
    type=click.Choice([str(table) for table in Table]),
    default=str(Table.HISTORY),
    show_default=True,
    help="Finished runs, occurrences that became no run, or the audit log.",
)
AS_JSON = json_option("Print JSON.")


def where(function: F) -> F:
    decorated: F = options(options_named((*WHERE, "archive", *STORAGE_SERVICE)))(function)
    return decorated


@click.group("archive", cls=Group, epilog=EXAMPLES)
def command() -> None:
    """List, verify and read archived history."""


@command.command("list", epilog="\b\nExamples:\n  oncue archive list --archive s3://bucket/oncue --json")
@where
@AS_JSON
def list_(as_json: bool, **given: Any) -> None:
    """List archived and skipped partitions, newest first."""
    found = _run(_list, given, as_json=as_json)
    if as_json:
        print_json(found)
        return
    shown = [
        (one["table"], one["from_time"], one["until_time"], f"{one['rows']:,}", _size(one), one["piece"])
        for one in found
    ]
    skipped = sum(one["skip_time"] is not None for one in found)
    title = f"{len(shown) - skipped} archived partitions" + (f", {skipped} skipped" if skipped else "")
    print_table(title, ("table", "from", "until", "rows", "bytes", "piece"), shown)


@command.command("verify", epilog="\b\nExamples:\n  oncue archive verify --archive file:///srv/archive")
@where
@AS_JSON
def verify_(as_json: bool, **given: Any) -> None:
    """Check that no archived file has changed.

    Reads everything back, compares sizes, lines and SHA-256, and names each file that has changed.
    """
    from oncue.services.archive_reading import verify

    async def check(engine: Engine, storage: Storage) -> Any:
        return await verify(storage, await _head(engine))

    found = _run(check, given, as_json=as_json)
    if as_json:
        print_json(found)
    else:
        large = f", {found.large:,} large values" if found.large else ""
        say(f"{found.pieces:,} partitions, {found.files:,} files, {found.rows:,} rows{large}, {found.bytes:,} bytes")
        for wrong in found.wrong:
            say(f"WRONG  {wrong}")
    if found.wrong:
        sys.exit(REFUSED)


SQL = """\b
Examples:
  oncue archive sql --archive file:///srv/archive
  oncue archive sql --archive s3://bucket/oncue --table audit --parquet a.pq
"""


@command.command("sql", epilog=SQL)
@where
@TABLE
@AS_JSON
@click.option("--parquet", metavar="FILE", help="Print the statement that copies the table to a Parquet file.")
def sql(table: str, parquet: str | None, as_json: bool, **given: Any) -> None:
    """Print DuckDB SQL that reads the archive."""
    from oncue.services.archive_reading import sql_of

    async def show(settings: Settings) -> str:
        return sql_of(_url(settings), Table(table))

    found = storing(show, given, as_json=as_json, read_only=True)
    if parquet is not None:
        file = parquet.replace("'", "''")
        found = f"copy (\n{found}) to '{file}' (format parquet)"
    if as_json:
        print_json({"sql": f"{found};"})
    else:
        say(f"{found};")


EXPORT = """\b
Examples:
  oncue archive export --user ada --archive s3://bucket/oncue > ada.jsonl
  oncue archive export --archive s3://bucket/oncue --table audit --to a.jsonl
  oncue archive export --user ada --to ada.jsonl --large values
"""


@command.command("export", epilog=EXPORT)
@where
@TABLE
@json_option("Print errors as JSON; rows always are.")
@click.option("--user", metavar="USER", help="Only rows of this user.")
@click.option("--to", type=click.File("wb"), default="-", help="The file to write. [default: standard output]")
@click.option("--large", metavar="FOLDER", help="Also write large payloads and results, named by their SHA-256.")
def export(table: str, user: str | None, to: BinaryIO, large: str | None, as_json: bool, **given: Any) -> None:
    """Write archived rows as JSON lines.

    The oldest partition comes first; each file is checked before it is written.
    """
    folder = None if large is None else _made(large)

    async def write(engine: Engine, storage: Storage) -> None:
        async for lines in _exported(engine, storage, Table(table), user):
            to.write(lines)
            if folder is not None:
                await _write_large(storage, lines, folder)
        to.flush()

    _run(write, given, as_json=as_json)


SKIP = """\b
Examples:
  oncue archive skip history-20260819T000000Z --engine postgresql://db/oncue
  oncue archive skip history-20260819T000000Z --yes

Only the oldest partition of a table can be skipped; a wrong name is answered with the right ones. It is dropped like
any other, when its time has come. This is for when the disk fills while the archive is unavailable.
"""


@command.command("skip", epilog=SKIP)
@click.argument("piece")
@options(options_named(WHERE))
@AS_JSON
@click.option("--yes", is_flag=True, help="Do not ask: for scripts.")
def skip_(piece: str, yes: bool, as_json: bool, **given: Any) -> None:
    """Drop a partition without archiving it.

    Its rows are lost when retention drops it.
    """
    from oncue.services.archive_skipping import find, skip

    async def decide(settings: Settings) -> Skipped:
        async with _opened_store(settings) as engine:
            now = await engine.now()
            found, rows = await find(engine, piece, now)
            if not yes:
                confirm(f"Lose {rows:,} rows of {piece} without an archive?")
            return await skip(engine, found, rows, now)

    done = storing(decide, given, as_json=as_json, read_only=True)
    if as_json:
        print_json(done)
    else:
        say(f"{done.piece} is not archived: its {done.rows:,} rows are dropped when their time has come")


async def _exported(engine: Engine, storage: Storage, table: Table, user: str | None) -> AsyncIterator[bytes]:
    from oncue.services.archive_reading import files_of
    from oncue.services.archiving import check_file

    uid = None if user is None else await engine.accounts.find(user)
    if user is not None and uid is None:
        raise NotFound(f"There is no user {user!r}.")
    async for one in files_of(storage, await _head(engine), uid):
        if f"/{table}/" in one.key:
            yield await check_file(storage, one)


async def _write_large(storage: Storage, lines: bytes, folder: Path) -> None:
    from oncue.services.archive_large import large_in

    for one in large_in(lines):
        (folder / one.sha256).write_bytes(await storage.get(one))


def _made(folder: str) -> Path:
    if not folder.strip():
        raise click.BadParameter("is empty; name a folder", param_hint="--large")
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as no:
        raise click.BadParameter(f"cannot create the folder ({no.strerror})", param_hint="--large") from None
    return Path(folder)


async def _list(engine: Engine, storage: Storage) -> list[dict[str, Any]]:
    from oncue.services.archive_reading import chain

    progress = await _progress(engine)
    found = [_skipped(one) for one in progress.skipped[::-1]]
    async for reference, one in chain(storage, progress.head):
        found += [_archived(reference, one), *(_skipped(other) for other in one.skipped[::-1])]
    return found


def _size(one: dict[str, Any]) -> str:
    return f"{one['bytes']:,}" if one["skip_time"] is None else "skipped"


def _archived(reference: Reference, one: Manifest) -> dict[str, Any]:
    return {
        "piece": one.piece,
        "table": one.table,
        "from_time": one.from_time,
        "until_time": one.until_time,
        "rows": one.rows,
        "files": len(one.files),
        "bytes": sum(file.size for file in one.files),
        "purged": one.purged,
        "manifest": reference.key,
        "sha256": reference.sha256,
        "skip_time": None,
    }


def _skipped(one: Skipped) -> dict[str, Any]:
    nothing = {"files": 0, "bytes": 0, "purged": [], "manifest": None, "sha256": None, "skip_time": one.skip_time}
    when = {"from_time": one.from_time, "until_time": one.until_time}
    return {"piece": one.piece, "table": one.table, **when, "rows": one.rows, **nothing}


async def _progress(engine: Engine) -> Progress:
    from oncue.services.archive_reading import progress_of

    return await progress_of(engine)


async def _head(engine: Engine) -> Reference | None:
    return (await _progress(engine)).head


def _run(work: Callable[[Engine, Storage], Coroutine[Any, Any, T]], given: dict[str, Any], *, as_json: bool) -> T:
    async def both(settings: Settings) -> T:
        async with _opened(settings) as (engine, storage):
            return await work(engine, storage)

    return storing(both, given, as_json=as_json, read_only=True)


@asynccontextmanager
async def _opened(settings: Settings) -> AsyncIterator[tuple[Engine, Storage]]:
    from oncue.clock import SystemClock
    from oncue.storage.open import open_archive

    _url(settings)
    storage = open_archive(settings, SystemClock())
    async with _opened_store(settings) as engine:
        yield engine, storage


@asynccontextmanager
async def _opened_store(settings: Settings) -> AsyncIterator[Engine]:
    from oncue.engines.open import open_existing

    engine = await open_existing(settings)
    try:
        yield engine
    finally:
        await engine.close()


def _url(settings: Settings) -> str:
    if not settings.archive:
        raise Invalid.of("archive", "required", "name the archive: s3://bucket/prefix or file:///folder")
    return settings.archive
