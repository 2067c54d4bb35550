"""`oncue backup`: write what the database contains to a file, and prove on request that it can be restored."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from oncue.cli.output import json_option
from oncue.cli.printing import print_json, say
from oncue.cli.refusing import REFUSED
from oncue.cli.roles import options, storing
from oncue.cli.settings_options import WHERE, options_named
from oncue.clock import SystemClock
from oncue.domain.errors import Invalid
from oncue.domain.instants import SECOND
from oncue.domain.plain_text import printable
from oncue.domain.shown_url import shown_url

if TYPE_CHECKING:
    from oncue.engines.backup import Contents, Tell
    from oncue.settings import Settings

EXAMPLES = """\b
Examples:
  oncue backup /backup/oncue-2026-11-19
  oncue backup today --engine 'postgresql://oncue_owner@db/shop?schema=oncue'
  oncue backup today --drill sqlite:////tmp/scratch.db
  oncue backup today --json

It may run while oncue runs, and has everything as it was at one instant. FILE appears when it is complete; if the
backup fails, there is no file. A file that exists is not overwritten.

For SQLite it is a database file, for PostgreSQL the dump of the schema by pg_dump, which must be installed in the
version of the server or a newer one. `oncue restore` restores both.

--drill also restores the file into another database, which must not exist or be empty, and compares: the exit code is
1 unless each job, run and API key is there as it was.
"""

BESIDE = ("objects", "master.key", "secrets", "admin.key")  # in the data directory, and in no database


@click.command("backup", epilog=EXAMPLES)
@options(options_named(WHERE))
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--drill", metavar="URL", help="Restore the backup into this empty database, and compare.")
@json_option("Print the summary as an object.")
def command(file: Path, drill: str | None, as_json: bool, **given: Any) -> None:
    """Write the database to a file, while oncue runs."""

    async def work(settings: Settings) -> dict[str, Any]:
        with working() as tell:
            return await _backup(settings, file, drill, tell)

    done = storing(work, given, as_json=as_json, read_only=True)
    differences = done["drill"]["differences"] if drill else []
    if as_json:
        print_json(done)
    else:
        _show(done)
    for difference in differences:
        say(f"The restored copy differs: {difference}.", err=True)
    if differences:
        sys.exit(REFUSED)


async def _backup(settings: Settings, file: Path, drill: str | None, tell: Tell) -> dict[str, Any]:
    from oncue.engines.open import backup, restore

    clock, scratch = SystemClock(), _scratch(settings, drill) if drill else None
    began = clock.monotonic()
    found = await backup(settings, file, tell)
    saved = summary(found, clock.monotonic() - began)
    done: dict[str, Any] = {"file": str(file), "bytes": _size(file), **saved, "beside": _beside(settings)}
    if scratch:
        began = clock.monotonic()
        copy = (await restore(scratch, file, tell)).contents
        tried = summary(copy, clock.monotonic() - began)
        done["drill"] = {"engine": shown_url(scratch.engine), **tried, "differences": found.differences(copy)}
    return done


def _scratch(settings: Settings, url: str) -> Settings:
    """Return settings with the database of --drill. Invalid: its URL is wrong, or of the other engine."""
    from oncue.engines.open import is_file
    from oncue.settings_checks import check_settings

    try:
        scratch = check_settings(msgspec.structs.replace(settings, engine=url))
    except Invalid as wrong:
        raise Invalid(*(msgspec.structs.replace(one, path="--drill") for one in wrong.problems)) from None
    if is_file(url) != is_file(settings.engine):
        raise Invalid.of("--drill", "bad_engine", "must name a database of the same kind as --engine")
    return scratch


def _size(file: Path) -> int:
    return file.stat().st_size


def _beside(settings: Settings) -> list[str]:
    """Return what this data directory has that is in no database."""
    places = (Path(settings.data_dir) / name for name in BESIDE)
    return [str(place) for place in places if place.is_file() or (place.is_dir() and any(place.iterdir()))]


def _show(done: dict[str, Any]) -> None:
    size = f"{done['bytes'] / 1_000_000:,.1f} MB"
    say(f"Wrote {printable(done['file'])}: {shown(done)}, {size}, in {done['seconds']:.1f} s.")
    if "drill" in done:
        copy = done["drill"]
        say(f"Restored {printable(copy['engine'])}: {shown(copy)}, in {copy['seconds']:.1f} s.")
    if done["beside"]:
        say(f"Not in the backup, copy as well: {', '.join(map(printable, done['beside']))}.")


def summary(found: Contents, took: int) -> dict[str, Any]:
    return {**msgspec.to_builtins(found), "seconds": round(took / SECOND, 1)}


def shown(done: dict[str, Any]) -> str:
    """Such as `12 recurring jobs, 340 runs, 3 keys, schema version 27`."""
    named = (("jobs", "recurring job"), ("runs", "run"), ("keys", "key"))
    counted = (f"{done[name]:,} {words}{'' if done[name] == 1 else 's'}" for name, words in named)
    return f"{', '.join(counted)}, schema version {done['schema_version']}"


@contextmanager
def working() -> Iterator[Tell]:
    """On a terminal show what is being done. A signal that ends the process ends the work first, as Ctrl-C does."""
    from rich.console import Console

    signals = [one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) is signal.SIG_DFL]
    for one in signals:
        signal.signal(one, lambda *_: signal.raise_signal(signal.SIGINT))
    console = Console(stderr=True)
    try:
        if console.is_terminal:
            with console.status("starting") as status:
                yield lambda doing: status.update(printable(doing))
        else:
            yield lambda doing: None
    finally:
        for one in signals:
            signal.signal(one, signal.SIG_DFL)
