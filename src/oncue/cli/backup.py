"""`oncue backup`: write what the database contains to a file, and prove on request that it can be restored."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from oncue.cli.output import json_option
from oncue.cli.printing import print_json, say
from oncue.cli.refusing import REFUSED
from oncue.cli.restore import counted, restore_into, show_restored, shown, summary, working
from oncue.cli.roles import options, storing
from oncue.cli.settings_options import WHERE, options_named
from oncue.clock import SystemClock
from oncue.domain.errors import Invalid
from oncue.domain.plain_text import printable

if TYPE_CHECKING:
    from oncue.engines.backup import Contents
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
1 unless each job, run and API key is there as it was. If it is, a copy for SQLite is removed again.
"""

BESIDE = ("objects", "master.key", "secrets", "admin.key")  # in the data directory, and in no database


@click.command("backup", epilog=EXAMPLES)
@options(options_named(WHERE))
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--drill", metavar="URL", help="Restore the backup into this empty database, and compare.")
@json_option("Print the summary as an object.")
def command(file: Path, drill: str | None, as_json: bool, **given: Any) -> None:
    """Write the database to a file."""
    found, done = storing(partial(_backup, file, drill), given, as_json=as_json, read_only=True)
    if not as_json:
        _show(done)
    differences: list[str] = []
    if drill:
        done["drill"] = storing(partial(_drill, found, file, drill), given, as_json=as_json, read_only=True)
        differences = done["drill"]["differences"]
        if not as_json:
            _show_drill(done["drill"])
    if as_json:
        print_json(done)
    for difference in differences:
        say(f"The restored copy differs: {difference}.", err=True)
    if differences:
        sys.exit(REFUSED)


async def _backup(file: Path, drill: str | None, settings: Settings) -> tuple[Contents, dict[str, Any]]:
    from oncue.engines.open import backup

    if drill:
        _scratch(drill, settings)
    clock = SystemClock()
    began = clock.monotonic()
    with working() as tell:
        found = await backup(settings, file, tell)
    done = summary(found, clock.monotonic() - began)
    return found, {"file": str(file), "bytes": _size(file), **done, "beside": _beside(settings)}


async def _drill(found: Contents, file: Path, url: str, settings: Settings) -> dict[str, Any]:
    """Restore the backup, compare, and remove the copy if that is a file and nothing is wrong."""
    from oncue.engines.open import remove_restored

    scratch = _scratch(url, settings)
    copy, restored = await restore_into(file, scratch)
    differences = found.differences(copy.contents)
    return {**restored, "differences": differences, "removed": not differences and remove_restored(scratch)}


def _scratch(url: str, settings: Settings) -> Settings:
    """Return settings with the database of --drill. Invalid: its URL is wrong, or of the other engine."""
    from oncue.engines.open import is_file
    from oncue.settings.checks import check_settings

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
    if done["beside"]:
        say(f"Not in the backup, copy as well: {', '.join(map(printable, done['beside']))}.")


def _show_drill(done: dict[str, Any]) -> None:
    show_restored(done)
    if done["differences"]:
        return
    *first, last = counted(done)
    say(f"Compared: {', '.join(first)} and {last} are equal.")
    where = printable(done["engine"])
    say(f"Removed {where}." if done["removed"] else f"Drop what is in {where} before the next drill: it must be empty.")
