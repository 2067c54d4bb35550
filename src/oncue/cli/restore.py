"""`oncue restore`: put a backup to where there is no database yet."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from oncue.cli.output import json_option
from oncue.cli.printing import print_json, say
from oncue.cli.roles import options, storing
from oncue.cli.settings_options import WHERE, options_named
from oncue.clock import SystemClock
from oncue.domain.instants import SECOND
from oncue.domain.plain_text import printable
from oncue.domain.shown_url import shown_url

if TYPE_CHECKING:
    from oncue.engines.backup import Contents, Restored, Tell
    from oncue.settings import Settings

EXAMPLES = """\b
Examples:
  oncue restore /backup/today --engine sqlite:////var/lib/oncue/oncue.db
  oncue restore today --engine 'postgresql://oncue_owner@db/shop?schema=oncue'
  oncue restore today --json

Stop every process of oncue first. The database must not exist yet; on PostgreSQL it must exist, its schema with no
tables of oncue. The URL leads to the schema that was in the backup. If the restore fails, nothing is restored.

A backup of an older version of oncue is migrated, one of a newer version may be refused.
"""


@click.command("restore", epilog=EXAMPLES)
@options(options_named(WHERE))
@click.argument("file", type=click.Path(path_type=Path))
@json_option("Print the summary as an object.")
def command(file: Path, as_json: bool, **given: Any) -> None:
    """Restore a backup into a new database."""
    restored, done = storing(partial(restore_into, file), given, as_json=as_json, read_only=True)
    if as_json:
        print_json({**done, "from_version": restored.from_version})
        return
    show_restored(done)
    if restored.from_version != restored.contents.schema_version:
        say(f"Migrated the schema from version {restored.from_version}.")


async def restore_into(file: Path, settings: Settings) -> tuple[Restored, dict[str, Any]]:
    """Return what was restored, and the summary of it for scripts."""
    from oncue.engines.open import restore

    clock = SystemClock()
    began = clock.monotonic()
    with working() as tell:
        restored = await restore(settings, file, tell)
    done = summary(restored.contents, clock.monotonic() - began)
    return restored, {"engine": shown_url(settings.engine), **done}


def show_restored(done: dict[str, Any]) -> None:
    say(f"Restored {printable(done['engine'])}: {shown(done)}, in {done['seconds']:.1f} s.")


def summary(found: Contents, took: int) -> dict[str, Any]:
    return {**msgspec.to_builtins(found), "seconds": round(took / SECOND, 1)}


def shown(done: dict[str, Any]) -> str:
    """Such as `12 recurring jobs, 340 runs, 3 keys, schema version 27`."""
    return f"{', '.join(counted(done))}, schema version {done['schema_version']}"


def counted(done: dict[str, Any]) -> list[str]:
    named = (("jobs", "recurring job"), ("runs", "run"), ("keys", "key"))
    return [f"{done[name]:,} {words}{'' if done[name] == 1 else 's'}" for name, words in named]


@contextmanager
def working() -> Iterator[Tell]:
    """On a terminal show what is being done. A signal that ends the process ends the work first, as Ctrl-C does."""
    from rich.console import Console

    task = asyncio.current_task()
    assert task is not None, "this is a coroutine"
    signals = [one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) is signal.SIG_DFL]
    stopped = []

    def stop(number: int, _: object) -> None:
        stopped.append(number)
        task.cancel()
        task.get_loop().call_soon_threadsafe(lambda: None)  # wakes the loop

    for one in signals:
        signal.signal(one, stop)
    console = Console(stderr=True)
    try:
        if console.is_terminal:
            with console.status("starting") as status:
                yield lambda doing: status.update(printable(doing))
        else:
            yield lambda doing: None
    except asyncio.CancelledError:
        if stopped:
            raise KeyboardInterrupt from None
        raise
    finally:
        for one in signals:
            signal.signal(one, signal.SIG_DFL)
