"""`oncue upcoming`: the runs to come."""

from __future__ import annotations

from typing import Any

import click

from oncue.cli.asking import LISTS, PAGES, asking, tell_list
from oncue.cli.output import Output
from oncue.cli.roles import options
from oncue.cli.tables import Column, Kind, Table
from oncue.shapes.overview import UpcomingRun

EXAMPLES = """\b
Examples:
  oncue upcoming
  oncue upcoming --limit 10 --task hello
  oncue upcoming --from 2027-01-31T00:00:00Z --until 2027-02-01T00:00:00Z
  oncue upcoming --watch 5s
  oncue upcoming --json | jq -r '.upcoming[] | .at, .job_name'
"""
UPCOMING: Table[UpcomingRun] = Table(
    "upcoming",
    lambda one: one.job_id,
    (
        Column("in", 9, lambda one: one.at),
        Column("job", 8, lambda one: one.job_id, kind=Kind.ID),
        Column("name", 24, lambda one: one.job_name or one.task, pipes=lambda one: one.job_name),
        Column("task", 20, lambda one: one.task),
        Column("queue", 12, lambda one: one.queue),
        Column("note", 30, lambda one: one.note, at=120),
        Column("local", 29, lambda one: one.local, at=200),
        Column("run", 8, lambda one: one.run_id, at=200, kind=Kind.ID),
    ),
)


@click.command("upcoming", epilog=EXAMPLES)
@click.option("--from", "start_time", metavar="INSTANT", help="From this time on. [default: now]")
@click.option("--until", "end_time", metavar="INSTANT", help="Before this time.")
@click.option("--task")
@click.option("--queue")
@click.option("--job", "job_id", metavar="JOB_ID", help="Of this job.")
@options(PAGES, LISTS)
def command(url: str | None, output: Output, limit: int, **filters: Any) -> None:
    """List the runs to come."""
    from oncue.client import overview

    with asking(url, as_json=output.as_json, names={"from": "--from", "to": "--until", "job_id": "--job"}) as client:
        tell_list(client, overview.upcoming_page(**filters), UPCOMING, limit, output)
