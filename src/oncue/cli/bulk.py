"""`oncue bulk`: actions on many objects, started by --all of other commands."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import click

from oncue.cli.asking import LISTS, PAGES, SERVER, asking, tell, tell_list
from oncue.cli.each import on_each
from oncue.cli.groups import Group
from oncue.cli.many import say_ended
from oncue.cli.naming import id_among, several_ids
from oncue.cli.output import Output, say_sentence
from oncue.cli.printing import print_fields, text
from oncue.cli.roles import options
from oncue.cli.showing import time
from oncue.cli.tables import Column, Kind, Table, short_id
from oncue.shapes.bulk import Bulk

if TYPE_CHECKING:
    from oncue.client import Client

NEWEST = 1_000  # bulks among which a part of an id is looked for
EXAMPLES = """\b
Examples:
  oncue jobs pause --all --tag nightly
  oncue bulk list
  oncue bulk show 84359e35
  oncue bulk stop 84359e35

BULK is an id or the last 6 or more digits of one. Several are accepted; - reads them from standard input.
"""
BULKS: Table[Bulk] = Table(
    "bulks",
    lambda bulk: bulk.bulk_id,
    (
        Column("id", 8, lambda bulk: bulk.bulk_id, kind=Kind.ID),
        Column("action", 8, lambda bulk: bulk.action),
        Column("of", 12, lambda bulk: bulk.of),
        Column("state", 9, lambda bulk: bulk.state, kind=Kind.STATUS),
        Column("done", 8, lambda bulk: bulk.done),
        Column("refused", 7, lambda bulk: bulk.refused),
        Column("started", 9, lambda bulk: bulk.created_at),
        Column("total", 8, lambda bulk: bulk.total, at=120),
        Column("by", 12, lambda bulk: bulk.started_by, at=120),
        Column("filter", 30, lambda bulk: bulk.filter, at=120),
    ),
)
SEVERAL = several_ids("BULK")


@click.group("bulk", cls=Group, epilog=EXAMPLES)
def command() -> None:
    """Follow and stop actions on many objects."""


@command.command("list", epilog="\b\nExamples:\n  oncue bulk list\n  oncue bulk list --watch")
@options(PAGES, LISTS)
def list_(url: str | None, output: Output, limit: int, page_token: str | None) -> None:
    """List bulks, newest first."""
    from oncue.client import bulk

    with asking(url, as_json=output.as_json) as client:
        tell_list(client, bulk.page(page_token=page_token), BULKS, limit, output)


@command.command("show", epilog="\b\nExamples:\n  oncue bulk show 84359e35")
@SEVERAL
@options(SERVER)
def show(url: str | None, output: Output, given: tuple[str, ...]) -> None:
    """Show how far a bulk is."""
    from oncue.client import bulk

    with asking(url, as_json=output.as_json) as client:
        on_each(given, lambda one: tell(client, bulk.show(_id_of(client, one)), _show, output), output)


@command.command("stop", epilog="\b\nExamples:\n  oncue bulk stop 84359e35\n  oncue bulk list -q | oncue bulk stop -")
@SEVERAL
@options(SERVER)
def stop(url: str | None, output: Output, given: tuple[str, ...]) -> None:
    """Stop a bulk; what it did stays."""
    from oncue.client import bulk

    with asking(url, as_json=output.as_json) as client:
        on_each(given, lambda one: tell(client, bulk.stop(_id_of(client, one)), say_ended, output), output)


def _id_of(client: Client, given: str) -> UUID:
    """Return the id of the bulk that is meant: an id, or a part of one among the newest."""
    return id_among(lambda: client.bulk.page(limit=NEWEST).items, given, BULKS, "oncue bulk list")


def _show(bulk: Bulk, output: Output) -> None:
    print_fields(
        f"{bulk.action} {bulk.of}",
        [
            ("bulk", str(bulk.bulk_id)),
            ("filter", "" if bulk.filter is None else text(bulk.filter, longest=None)),
            ("state", bulk.state),
            ("done", f"{bulk.done:,}" + ("" if bulk.total is None else f" of {bulk.total:,}")),
            ("refused", f"{bulk.refused:,}" if bulk.refused else ""),
            ("by", text(bulk.started_by)),
            ("started", time(bulk.created_at, output)),
            ("ended", time(bulk.ended_at, output)),
            ("why", text(bulk.why, longest=None)),
        ],
    )
    for one in bulk.reasons:
        say_sentence(f"{short_id(one.id) if output.for_people else one.id}: {text(one.reason, longest=None)}", output)
