"""`oncue upcoming`: the runs to come."""

from __future__ import annotations

from typing import Any

import click

from oncue.cli import naming, time_option
from oncue.cli.asking import LISTS, PAGES, asking, tell_list
from oncue.cli.completing import queue_names, task_names
from oncue.cli.naming import job_id_of
from oncue.cli.output import Output
from oncue.cli.roles import options
from oncue.cli.tables import Column, Kind, Table
from oncue.cli.time_option import TIME
from oncue.shapes.overview import UpcomingRun

EXAMPLES = f"""\b
Examples:
  oncue upcoming
  oncue upcoming --limit 10 --task hello
  oncue upcoming --from "in 1h" --until "in 2h"
  oncue upcoming --watch 5s
  oncue upcoming --json | jq -r '.upcoming[] | .at, .job_name'

{time_option.HELP}
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
    noun="upcoming runs",
)


@click.command("upcoming", epilog=EXAMPLES)
@click.option("--from", "start_time", type=TIME, help="From this time on. [default: now]")
@click.option("--until", "end_time", type=TIME, help="Before this time.")
@naming.job_option("Runs of this job: an id, the end of one, a key or a name.")
@click.option("--task", shell_complete=task_names, help="Runs of this task.")
@click.option("--queue", shell_complete=queue_names, help="Runs in this queue.")
@options(PAGES, LISTS)
def command(url: str | None, output: Output, limit: int, job_id: str | None, **filters: Any) -> None:
    """List the runs to come."""
    from oncue.client import overview

    with asking(url, as_json=output.as_json, names={"from": "--from", "to": "--until", "job_id": "--job"}) as client:
        job = None if job_id is None else job_id_of(client, job_id)
        tell_list(client, overview.upcoming_page(job_id=job, **filters), UPCOMING, limit, output)
