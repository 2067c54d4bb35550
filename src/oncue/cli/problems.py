"""`oncue problems`: what needs attention."""

from __future__ import annotations

import re

import click

from oncue.cli.asking import LISTS, asking, tell_whole_list
from oncue.cli.output import Output
from oncue.cli.roles import options
from oncue.cli.tables import Column, Kind, Table, short_id
from oncue.shapes.overview import KnownProblem

EXAMPLES = """\b
Examples:
  oncue problems
  oncue problems --watch 10s
  oncue problems --columns problem,detail
  oncue problems --json | jq -r '.problems[] | .title, .remedy, .command'

Without an admin key it tells what concerns your own runs. `oncue doctor` also checks the database and this machine.
"""
_FULL_ID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")


def _typed(one: KnownProblem) -> str | None:
    """Return the command with short ids."""
    return one.command and _FULL_ID.sub(lambda found: short_id(found[0]), one.command)


# The command is to be copied and never cut; what follows it is left out where there is no room.
PROBLEMS: Table[KnownProblem] = Table(
    "problems",
    lambda one: one.kind,
    (
        Column("severity", 8, lambda one: one.severity, kind=Kind.STATUS),
        Column("problem", 30, lambda one: one.title),
        Column("command", 30, _typed, kind=Kind.ID, pipes=lambda one: one.command),
        Column("since", 7, lambda one: one.since),
        Column("count", 5, lambda one: one.count or None),
        Column("remedy", 40, lambda one: one.remedy, at=120),
        Column("detail", 40, lambda one: one.detail, at=200),
        Column("kind", 12, lambda one: one.kind, at=200),
    ),
)


@click.command("problems", epilog=EXAMPLES)
@options(LISTS)
def command(url: str | None, output: Output) -> None:
    """List what needs attention."""
    from oncue.client import overview

    with asking(url, as_json=output.as_json) as client:
        tell_whole_list(client, overview.problems(), PROBLEMS, output)
