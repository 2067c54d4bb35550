"""`oncue migrate`: the store's schema, brought up to date before anything starts on it."""

from __future__ import annotations

from typing import Any

import click

from oncue.cli.printing import print_json
from oncue.cli.roles import WHERE, options, storing

EXAMPLES = """\b
Examples:
  oncue migrate
  oncue migrate --engine postgresql://owner:password@db/oncue
  oncue migrate --engine sqlite:////var/lib/oncue/oncue.db --json

Every role does the same when it starts; do it apart to see it done before a deploy. Any number may run at once, beside
processes that are at work. A schema that is newer is left alone; one that this oncue is too old for is refused: exit 1.
"""


@click.command("migrate", epilog=EXAMPLES)
@options(WHERE)
@click.option("--json", "as_json", is_flag=True, help="Print an object.")
def command(as_json: bool, **given: Any) -> None:
    """Bring the store's schema up to date."""
    from oncue.engines.open import migrate

    before, after = storing(migrate, given, as_json=as_json)
    if as_json:
        print_json({"from_version": before, "to_version": after})
    elif before == after:
        click.echo(f"the schema is up to date, at version {after}")
    else:
        click.echo(f"the schema was at version {before} and is at version {after} now")
