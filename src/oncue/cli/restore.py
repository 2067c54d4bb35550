"""`oncue restore`: put a backup to where there is no database yet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from oncue.cli.backup import shown, summary, working
from oncue.cli.output import json_option
from oncue.cli.printing import print_json, say
from oncue.cli.roles import options, storing
from oncue.cli.settings_options import WHERE, options_named
from oncue.clock import SystemClock
from oncue.domain.plain_text import printable
from oncue.domain.shown_url import shown_url

if TYPE_CHECKING:
    from oncue.engines.backup import Tell
    from oncue.settings import Settings

EXAMPLES = """\b
Examples:
  oncue restore /backup/oncue-2026-11-19 --engine sqlite:////var/lib/oncue/oncue.db
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

    async def work(settings: Settings) -> dict[str, Any]:
        with working() as tell:
            return await _restore(settings, file, tell)

    done = storing(work, given, as_json=as_json, read_only=True)
    if as_json:
        print_json(done)
        return
    say(f"Restored {printable(done['engine'])}: {shown(done)}, in {done['seconds']:.1f} s.")
    if done["from_version"] != done["schema_version"]:
        say(f"Migrated the schema from version {done['from_version']}.")


async def _restore(settings: Settings, file: Path, tell: Tell) -> dict[str, Any]:
    from oncue.engines.open import restore

    clock = SystemClock()
    began = clock.monotonic()
    restored = await restore(settings, file, tell)
    done = summary(restored.contents, clock.monotonic() - began)
    return {"engine": shown_url(settings.engine), **done, "from_version": restored.from_version}
