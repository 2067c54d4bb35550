"""`oncue problems`: what needs attention."""

from __future__ import annotations

import click

from oncue.cli.asking import LISTS, asking, tell_whole_list
from oncue.cli.output import Output
from oncue.cli.roles import options
from oncue.cli.tables import Column, Kind, Table
from oncue.shapes.overview import KnownProblem

EXAMPLES = """\b
Examples:
  oncue problems
  oncue problems --watch 10s
  oncue problems --columns problem,detail
  oncue problems --json | jq -r '.problems[] | .title, .remedy, .command'

Without an admin key it tells what concerns your own runs. `oncue doctor` also checks the database and this machine.
"""
PROBLEMS: Table[KnownProblem] = Table(
    "problems",
    lambda one: one.kind,
    (
        Column("severity", 8, lambda one: one.severity, kind=Kind.STATUS),
        Column("problem", 30, lambda one: one.title),
        Column("count", 5, lambda one: one.count or None),
        Column("since", 7, lambda one: one.since),
        Column("command", 30, lambda one: one.command),
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
