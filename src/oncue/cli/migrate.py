"""`oncue migrate`: bring the database schema up to date."""

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

Every role migrates when it starts; run this command to migrate before a deploy. It is safe while other processes work,
and any number may run at once. A newer schema stays as it is; if it is too new for this oncue, the exit code is 1.
"""


@click.command("migrate", epilog=EXAMPLES)
@options(WHERE)
@click.option("--json", "as_json", is_flag=True, help="Print the versions as an object.")
def command(as_json: bool, **given: Any) -> None:
    """Bring the database schema up to date."""
    from oncue.engines.open import migrate

    before, after = storing(migrate, given, as_json=as_json)
    if as_json:
        print_json({"from_version": before, "to_version": after})
    elif before == after:
        click.echo(f"The schema is up to date at version {after}.")
    else:
        click.echo(f"Migrated the schema from version {before} to version {after}.")
