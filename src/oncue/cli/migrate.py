"""`oncue migrate`: bring the database schema up to date."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from oncue.cli.output import json_option
from oncue.cli.printing import print_json
from oncue.cli.refusing import REFUSED
from oncue.cli.roles import options, storing
from oncue.cli.settings_options import WHERE, options_named

EXAMPLES = """\b
Examples:
  oncue migrate
  oncue migrate --engine postgresql://owner:password@db/oncue
  oncue migrate --engine sqlite:////var/lib/oncue/oncue.db --json
  oncue migrate --check
  oncue migrate --contract

Every role migrates when it starts; run this command to migrate before a deploy. It is safe while other processes work,
and any number may run at once. A newer schema stays as it is; if it is too new for this oncue, the exit code is 1.

Contract migrations remove what only older versions use, so only --contract applies them: when the upgrade of all
processes is complete and you do not want to go back. It is refused while an older process uses the database.
"""


@click.command("migrate", epilog=EXAMPLES)
@options(options_named(WHERE))
@click.option("--check", is_flag=True, help="Change nothing; exit with 1 if a migration is missing.")
@click.option("--contract", is_flag=True, help="Also apply migrations that older versions do not work with.")
@json_option("Print the versions as an object.")
def command(check: bool, contract: bool, as_json: bool, **given: Any) -> None:
    """Bring the database schema up to date."""
    if check and contract:
        raise click.UsageError("--check changes nothing: use it without --contract.")
    if check:
        _check(given, as_json=as_json)
    elif contract:
        _contract(given, as_json=as_json)
    else:
        _migrate(given, as_json=as_json)


def _migrate(given: dict[str, Any], *, as_json: bool) -> None:
    from oncue.engines.open import migrate

    before, after = storing(migrate, given, as_json=as_json)
    if as_json:
        print_json({"from_version": before, "to_version": after})
    elif before == after:
        click.echo(f"The schema is up to date at version {after}.")
    else:
        click.echo(f"Migrated the schema from version {before} to version {after}.")


def _check(given: dict[str, Any], *, as_json: bool) -> None:
    from oncue.engines.open import pending
    from oncue.engines.schema import named

    found = storing(pending, given, as_json=as_json, read_only=True)
    if as_json:
        print_json(found)
    else:
        if found.others:
            click.echo(f"The database has no table of oncue, but other tables: {named(found.others)}.")
        elif not found.version:
            click.echo("The database is empty or does not exist.")
        if found.expand:
            click.echo(f"{_listed(found.expand)} missing: run `oncue migrate`.")
        if found.contract:
            click.echo(
                f"{_listed(found.contract, 'Contract migration')} missing: when every process runs this version, "
                "run `oncue migrate --contract`."
            )
        if not (found.expand or found.contract):
            click.echo(f"The schema is up to date at version {found.version}.")
    if found.expand or found.contract:
        sys.exit(REFUSED)


def _contract(given: dict[str, Any], *, as_json: bool) -> None:
    from oncue.engines.open import contract

    done = storing(contract, given, as_json=as_json, read_only=True)
    if as_json:
        print_json({"applied": done})
    elif done:
        click.echo(f"{_listed(done, 'Contract migration')} applied.")
    else:
        click.echo("There is no contract migration to apply.")


def _listed(numbers: Sequence[int], kind: str = "Migration") -> str:
    """Such as `Migrations 11, 12 are`."""
    named = ", ".join(map(str, numbers))
    return f"{kind} {named} is" if len(numbers) == 1 else f"{kind}s {named} are"
