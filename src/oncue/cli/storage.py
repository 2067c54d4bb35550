"""`oncue storage`: compare object storage with the database."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from oncue.cli.groups import Group
from oncue.cli.output import json_option
from oncue.cli.printing import print_json, print_table
from oncue.cli.refusing import REFUSED
from oncue.cli.roles import options, storing
from oncue.cli.settings_options import STORAGE_PLACE, WHERE, options_named

if TYPE_CHECKING:
    from oncue.services.storage_check import Checked, Tell
    from oncue.settings import Settings

EXAMPLES = """\b
Examples:
  oncue storage check --engine postgresql://db/oncue --storage s3://bucket/o
  oncue storage check --json | jq '.findings[] | select(.wrong == "missing")'
"""
CHECK = """\b
Examples:
  oncue storage check
  oncue storage check --storage s3://bucket/oncue --json

\b
missing     a job, run or log refers to it, but it is not in storage
other size  it has another size in storage than when it was stored
unknown     stored for more than a day, and not known to the database
unfinished  a killed process left it in a folder; no such object is known

It changes nothing. The exit code is 1 if something is wrong. It asks for each object, so a million take a while. The
keys in the environment need the right to list the bucket.
"""


@click.group("storage", cls=Group, epilog=EXAMPLES)
def command() -> None:
    """Check object storage."""


@command.command("check", epilog=CHECK)
@options(options_named((*WHERE, *STORAGE_PLACE)))
@json_option("Print JSON.")
def check(as_json: bool, **given: Any) -> None:
    """Compare object storage with the database."""
    with _progress() as tell:

        async def work(settings: Settings) -> Checked:
            return await _check(settings, tell)

        found = storing(work, given, as_json=as_json, read_only=True)
    if as_json:
        print_json(found)
    else:
        _show(found)
    if found.wrong:
        sys.exit(REFUSED)


async def _check(settings: Settings, tell: Tell) -> Checked:
    from oncue.clock import SystemClock
    from oncue.engines.open import open_existing
    from oncue.services.storage_check import check_storage
    from oncue.storage.open import open_storage

    storage = open_storage(settings, SystemClock())
    engine = await open_existing(settings)
    try:
        return await check_storage(engine, storage, engine.now, tell)
    finally:
        await engine.close()


def _show(found: Checked) -> None:
    seen = f"{found.known:,} objects in the database, {found.stored:,} in storage with {found.bytes:,} bytes"
    wrong = ", ".join(f"{n:,} {kind}" for kind, n in found.wrong.items())
    rows = [(str(one.wrong), _number(one.size), _number(one.expected), one.key) for one in found.findings]
    left_out = sum(found.wrong.values()) - len(rows)
    below = [f"… and {left_out:,} more"] if left_out else []
    print_table(f"{seen}: {wrong or 'all is well'}", ("wrong", "bytes", "expected", "key"), rows, below)


def _number(size: int | None) -> str:
    return "" if size is None else f"{size:,}"


@contextmanager
def _progress() -> Iterator[Tell]:
    """On a terminal show how far it is, elsewhere nothing."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda what, n: None
        return
    with console.status("checking") as status:
        yield lambda what, n: status.update(f"{n:,} {what}")
