"""`oncue outbox`: jobs that applications enqueued in their own transactions and that are not created yet."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

import click
import msgspec

from oncue.cli.asking import CONTEXT, LARGEST_PAGE, URL, asking, names_server
from oncue.cli.groups import Group
from oncue.cli.output import json_option
from oncue.cli.printing import print_json, print_table, say
from oncue.cli.refusing import confirm
from oncue.cli.roles import options, storing
from oncue.cli.settings_options import WHERE, options_named
from oncue.domain.errors import OncueError
from oncue.domain.ids import JobId
from oncue.domain.instants import rfc3339
from oncue.domain.plain_text import printable

if TYPE_CHECKING:
    from oncue.engines.outbox_values import Enqueued
    from oncue.engines.port import Engine
    from oncue.settings import Settings

T = TypeVar("T")

EXAMPLES = """\b
Examples:
  oncue outbox list --engine postgresql://db/shop?schema=oncue
  oncue outbox list --url https://oncue.example.org
  oncue outbox list --refused --json
  oncue outbox retry --all
  oncue outbox discard 01a1ebef-0b45-7b06-b5b0-c13a7bd1a9d2
"""
RETRY = """\b
Examples:
  oncue outbox retry --all
  oncue outbox retry 01a1ebef-0b45-7b06-b5b0-c13a7bd1a9d2
"""
DISCARD = """\b
Examples:
  oncue outbox discard 01a1ebef-0b45-7b06-b5b0-c13a7bd1a9d2
  oncue outbox discard --all -y
"""
AS_JSON = json_option("Print JSON.")
JOB_IDS = click.argument("job_ids", metavar="[JOB_ID]...", nargs=-1, type=click.UUID)
MOST = 10_000  # rows that one command changes


@click.group("outbox", cls=Group, epilog=EXAMPLES)
def command() -> None:
    """Work with enqueued jobs that are not created."""


@command.command("list", epilog="\b\nExamples:\n  oncue outbox list --refused")
@options(options_named(WHERE), (URL, CONTEXT))
@click.option("--refused", is_flag=True, help="Only those that were refused.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="Show at most N items.")
@AS_JSON
def list_(refused: bool, limit: int, as_json: bool, url: str | None, **given: Any) -> None:
    """List jobs that wait or were refused."""
    if given["engine"] or not names_server(url):
        only = True if refused else None
        found = in_store(lambda engine: engine.outbox.listed(limit, refused=only), given, as_json=as_json)
        shown = [_shown(row) for row in found]
    else:
        with asking(url, as_json=as_json) as client:
            listed = client.outbox(status="refused" if refused else None, limit=min(limit, LARGEST_PAGE))
            shown = [msgspec.to_builtins(one) for one in islice(listed, limit)]
    if as_json:
        print_json({"outbox": shown})
        return
    columns = ("job_id", "status", "task", "user_id", "enqueued_at", "why")
    rows = [tuple(printable(str(one[name] or "")) for name in columns) for one in shown]
    print_table(f"{len(rows)} in the outbox", ("job", "status", "task", "user", "enqueued", "why"), rows)


def _shown(row: Enqueued) -> dict[str, Any]:
    return {
        "job_id": str(row.job_id),
        "status": "refused" if row.refused else "waiting",
        "task": row.task,
        "payload": msgspec.Raw(row.payload.encode()),
        "options": msgspec.Raw(row.options.encode()),
        "user_id": row.user_id,
        "db_role": row.db_role,
        "enqueued_at": rfc3339(row.at),
        "why": row.why,
    }


@command.command("ddl", epilog="\b\nExamples:\n  oncue outbox ddl | sqlite3 app.db\n  oncue outbox ddl | psql shop")
@AS_JSON
def ddl(as_json: bool) -> None:
    """Print the table of an application's own outbox.

    `oncue.enqueue` writes to it in the application's transactions, and `oncue relay` creates the jobs.
    """
    from oncue.enqueuing import DDL

    if as_json:
        print_json({"ddl": DDL.rstrip()})
    else:
        say(DDL.rstrip())


@command.command("retry", epilog=RETRY)
@options(options_named(WHERE))
@JOB_IDS
@click.option("--all", "everything", is_flag=True, help="All that were refused.")
@AS_JSON
def retry(job_ids: Sequence[UUID], everything: bool, as_json: bool, **given: Any) -> None:
    """Retry jobs that were refused."""
    _refuse_both(job_ids, everything)

    async def again(engine: Engine) -> int:
        return await engine.outbox.retry(await _chosen(engine, job_ids), await engine.now())

    _tell(in_store(again, given, as_json=as_json), "retried", as_json=as_json)


@command.command("discard", epilog=DISCARD)
@options(options_named(WHERE))
@JOB_IDS
@click.option("--all", "everything", is_flag=True, help="All that were refused.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@AS_JSON
def discard(job_ids: Sequence[UUID], everything: bool, yes: bool, as_json: bool, **given: Any) -> None:
    """Delete jobs that are not created yet."""
    _refuse_both(job_ids, everything)
    if not yes:
        confirm("Delete these jobs? They are never created.")

    async def gone(engine: Engine) -> int:
        return await engine.outbox.discard(await _chosen(engine, job_ids))

    _tell(in_store(gone, given, as_json=as_json), "discarded", as_json=as_json)


def _refuse_both(job_ids: Sequence[UUID], everything: bool) -> None:
    if bool(job_ids) is everything:
        raise click.UsageError("name jobs, or use --all for all that were refused")


async def _chosen(engine: Engine, job_ids: Sequence[UUID]) -> list[JobId]:
    if job_ids:
        return [JobId(one) for one in job_ids]
    return [row.job_id for row in await engine.outbox.listed(MOST, refused=True)]


def _tell(count: int, done: str, *, as_json: bool) -> None:
    if as_json:
        print_json({done: count})
    else:
        say(f"{count} {done}.")


def in_store(work: Callable[[Engine], Coroutine[Any, Any, T]], given: dict[str, Any], *, as_json: bool) -> T:
    """Do something in the database that the options name. OncueError: it has no outbox."""

    async def do(settings: Settings) -> T:
        from oncue.engines.open import open_existing

        engine = await open_existing(settings)
        try:
            if not engine.capabilities.outbox:
                raise OncueError("A SQLite file has no outbox: enqueuing in your own transactions needs PostgreSQL.")
            return await work(engine)
        finally:
            await engine.close()

    return storing(do, given, as_json=as_json, read_only=True)
