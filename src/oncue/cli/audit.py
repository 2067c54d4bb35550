"""`oncue audit`: who did what."""

from __future__ import annotations

from typing import Any

import click

from oncue.cli import time_option
from oncue.cli.asking import LISTS, PAGES, asking, tell_list
from oncue.cli.naming import job_id_of, job_option, object_id_of
from oncue.cli.output import Output
from oncue.cli.roles import options
from oncue.cli.tables import Column, Kind, Table
from oncue.cli.time_option import TIME
from oncue.shapes.accounts import AuditLine

EXAMPLES = f"""\b
Examples:
  oncue audit --limit 20
  oncue audit --job greeting
  oncue audit --object 84359e35
  oncue audit --action key.revoke --from "7d ago"
  oncue audit --user alice --json | jq '.audit[].action'

Administrators see what all users did, other users what they did themselves. {time_option.HELP}
"""
AUDIT: Table[AuditLine] = Table(
    "audit",
    lambda line: line.object_id,
    (
        Column("at", 9, lambda line: line.at),
        Column("user", 14, lambda line: line.user_id),
        Column("action", 18, lambda line: line.action),
        Column("object", 8, lambda line: line.object_id, kind=Kind.ID),
        Column("detail", 20, lambda line: line.detail),
        Column("address", 15, lambda line: line.address, at=120),
        Column("key", 8, lambda line: line.key_id, at=200, kind=Kind.ID),
    ),
    noun="entries of the audit log",
)


@click.command("audit", epilog=EXAMPLES)
@click.option(
    "--object", "object_id", metavar="OBJECT", help="Done to this job, run or key: an id, the end of one or a name."
)
@job_option("Done to this job: an id, the end of one, a key or a name.")
@click.option("--action", help="What was done, like job.edit.")
@click.option("--user", "user_id", help="By this user (admin).")
@click.option("--from", "start_time", type=TIME, help="At this time or later.")
@click.option("--until", "end_time", type=TIME, help="Before this time.")
@options(PAGES, LISTS)
def command(
    url: str | None, output: Output, limit: int, job_id: str | None, object_id: str | None, **filters: Any
) -> None:
    """List who did what, newest first."""
    from oncue.client import fleet

    if job_id is not None and object_id is not None:
        raise click.UsageError("--job and --object name an object each; give one of them.")
    with asking(url, as_json=output.as_json, names={"q": "--object"}) as client:
        about = None if object_id is None else object_id_of(client, object_id)
        about = about if job_id is None else job_id_of(client, job_id)
        tell_list(client, fleet.audit_page(object_id=about, **filters), AUDIT, limit, output)
