"""`oncue relay`: create jobs from an outbox in an application's own database."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from oncue.cli.asking import CONTEXT, URL
from oncue.cli.destination import destination
from oncue.cli.outbox import AS_JSON
from oncue.cli.printing import print_json, print_table, say
from oncue.cli.refusing import REFUSED, UNREACHABLE, refuse
from oncue.cli.roles import options
from oncue.clock import Clock
from oncue.domain.errors import OncueError
from oncue.domain.instants import MILLISECOND, SECOND, Duration, rfc3339
from oncue.domain.plain_text import printable
from oncue.enqueuing import TABLE

if TYPE_CHECKING:
    from oncue.client import AsyncClient
    from oncue.relay.relaying import Passed
    from oncue.relay.sources import Row

EXAMPLES = """\b
Examples:
  oncue relay --from sqlite:///app.db
  oncue relay --from postgresql://db/shop --url https://oncue.example.org
  oncue relay --from sqlite:///app.db --once
  oncue relay --from sqlite:///app.db --list

The application writes rows to the table oncue_outbox in its own transactions (`oncue outbox ddl` prints it); each
becomes one job, and is deleted then. A job that the server refuses stays with the reason, and is retried every minute.
"""
POLL_INTERVAL = Duration(100 * MILLISECOND)
AWAY_FOR = Duration(SECOND)  # until a server or a database that did not answer is tried again
MOST_LISTED = 1_000
NO_ID = "it has no id, so it is not sent; set one"


@click.command("relay", epilog=EXAMPLES)
@click.option("--from", "source", metavar="URL", required=True, help="The application's database.")
@click.option("--table", default=TABLE, show_default=True, help="Its outbox.")
@click.option("--once", is_flag=True, help="Send what is there, then end; exit with 1 if something was refused.")
@click.option("--list", "listing", is_flag=True, help="Show what is there, and why it was refused; send nothing.")
@options((URL, CONTEXT))
@AS_JSON
@click.pass_obj
def command(
    clock: Clock, /, source: str, table: str, once: bool, listing: bool, url: str | None, as_json: bool
) -> None:
    """Create jobs from an outbox in another database."""
    from oncue.client import AsyncClient, ClientError, ServerUnreachable

    to = destination(url)
    try:
        if listing:
            asyncio.run(_list(source, table, as_json=as_json))
            return
        tell = _tell_as_json if as_json else _tell
        client = AsyncClient(to.url, context=to.context)
        if to.elsewhere and sys.stderr.isatty():
            say(f"Server: {to.words(client.url)}", err=True)
        refused = asyncio.run(_relay(source, table, client, clock, once, tell))
    except ServerUnreachable as away:
        refuse(str(away), code=UNREACHABLE, as_json=as_json)
    except (ClientError, OncueError) as no:
        refuse(str(no), as_json=as_json)
    except ValueError as wrong:
        raise click.UsageError(str(wrong)) from None
    click.get_current_context().exit(REFUSED if refused else 0)


async def _list(source: str, table: str, *, as_json: bool) -> None:
    from oncue.relay.sources import opened

    async with opened(source, table) as outbox:
        found = await outbox.listed(MOST_LISTED)
    if as_json:
        print_json({"outbox": [dict(zip(("row", "task", "at", "why"), _shown(one), strict=True)) for one in found]})
        return
    rows = [tuple(printable(text or "") for text in _shown(row)) for row in found]
    print_table(f"{len(rows)} in the outbox", ("row", "task", "enqueued", "why"), rows)


def _shown(row: Row) -> tuple[str, str, str, str | None]:
    """Return what a list shows of a row, whatever types its columns have."""
    try:
        at = rfc3339(row.at)
    except (TypeError, OverflowError):
        at = str(row.at)
    return str(row.id), str(row.task), at, NO_ID if row.id is None else row.why


async def _relay(
    source: str, table: str, client: AsyncClient, clock: Clock, once: bool, tell: Callable[[Passed], None]
) -> int:
    """Return how many rows were refused, once nothing is left; without `once` there is no end."""
    from oncue.client import ClientError, Unauthorized
    from oncue.relay.relaying import Relay
    from oncue.relay.sources import SourceUnavailable, opened

    refused, said = 0, ""
    async with client:
        while True:
            try:
                async with opened(source, table) as outbox:
                    relay = Relay(outbox, client, clock)
                    while True:
                        passed = await relay.run_once()
                        tell(passed)
                        refused, said = refused + len(passed.refused), ""
                        if once and not passed.full:
                            return refused
                        await clock.sleep(Duration(0) if passed.full else POLL_INTERVAL)
            except (ClientError, SourceUnavailable) as away:
                if once or isinstance(away, Unauthorized):
                    raise
                if str(away) != said:  # one line for each outage
                    said = str(away)
                    say(f"Waiting: {said}", err=True)
                await clock.sleep(AWAY_FOR)


def _tell_as_json(passed: Passed) -> None:
    if passed.created or passed.refused:
        refused = [{"row": str(row.id), "task": str(row.task), "why": why} for row, why in passed.refused]
        print_json({"created": passed.created, "refused": refused}, indent=0)  # a line for each pass


def _tell(passed: Passed) -> None:
    if passed.created:
        say(f"{passed.created} created.")
    for row, why in passed.refused:
        say(f"{printable(str(row.id))} ({printable(str(row.task))}) refused: {printable(why)}", err=True)
