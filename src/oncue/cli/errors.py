"""`oncue errors`: failures that are alike, in groups."""

from __future__ import annotations

import click

from oncue.cli.asking import LISTS, PAGES, asking, tell_list
from oncue.cli.output import Output
from oncue.cli.roles import options
from oncue.cli.tables import Column, Table
from oncue.shapes.errors import ErrorGroup

EXAMPLES = """\b
Examples:
  oncue errors
  oncue errors --watch 10s
  oncue dead list --fingerprint 3f2a91c07be45d18
  oncue dead requeue --all --fingerprint 3f2a91c07be45d18
"""
GROUPS: Table[ErrorGroup] = Table(
    "errors",
    lambda one: one.fingerprint or "",
    (
        Column("fingerprint", 16, lambda one: one.fingerprint),
        Column("count", 6, lambda one: one.count),
        Column("dead", 4, lambda one: one.open_letters),
        Column("last", 8, lambda one: one.last_seen),
        Column("task", 14, lambda one: one.task),
        Column("error", 24, lambda one: f"{one.error_type}: {one.sample}"),
        Column("first", 8, lambda one: one.first_seen, at=120),
        Column("today", 6, lambda one: sum(one.trend), at=120),
        Column("owner", 12, lambda one: one.user_id, at=200),
    ),
)


@click.command("errors", epilog=EXAMPLES)
@options(PAGES, LISTS)
def command(url: str | None, output: Output, limit: int, page_token: str | None) -> None:
    """List failures in groups of the same error."""
    from oncue.client import fleet

    with asking(url, as_json=output.as_json) as client:
        tell_list(client, fleet.errors_page(page_token=page_token), GROUPS, limit, output)
