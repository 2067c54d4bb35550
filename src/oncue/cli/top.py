"""`oncue top`: watch queues, workers and running runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec

from oncue.cli.asking import SERVER, asking, tell_data
from oncue.cli.numbers import FiniteRange
from oncue.cli.output import Output, coloured
from oncue.cli.roles import options
from oncue.cli.showing import job_of, progress_of
from oncue.cli.tables import Column, Kind, Table, lines_of, print_lines
from oncue.cli.watching import watch
from oncue.shapes.fleet import Queue, Worker
from oncue.shapes.runs import Run

if TYPE_CHECKING:
    from oncue.client import Client

EXAMPLES = """\b
Examples:
  oncue top
  oncue top --every 5
  oncue top --once
  oncue top --json | jq '.queues[] | {name, depth}'

Ctrl-C quits. In a pipe, or with --json, it prints once and exits.
"""
MOST_RUNS = 20

QUEUES: Table[Queue] = Table(
    "queues",
    lambda queue: queue.name,
    (
        Column("queue", 24, lambda queue: queue.name),
        Column("due", 7, lambda queue: queue.due),
        Column("running", 7, lambda queue: queue.running),
        Column("waiting", 7, lambda queue: max(queue.depth - queue.running, 0)),
        Column("workers", 7, lambda queue: len(queue.workers)),
        Column("status", 8, lambda queue: "paused" if queue.paused_since else "active", kind=Kind.STATUS),
    ),
)
WORKERS: Table[Worker] = Table(
    "workers",
    lambda worker: worker.worker_id,
    (
        Column("worker", 20, lambda worker: worker.name),
        Column("status", 8, lambda worker: (worker.status or "active").replace("_", " "), kind=Kind.STATUS),
        Column("running", 7, lambda worker: worker.running),
        Column("seen", 8, lambda worker: worker.seen_at),
        Column("queues", 16, lambda worker: ", ".join(worker.queues)),
        Column("host", 16, lambda worker: worker.host, at=120),
    ),
)
RUNNING: Table[Run] = Table(
    "runs",
    lambda run: run.run_id,
    (
        Column("id", 8, lambda run: run.run_id, kind=Kind.ID),
        Column("job", 24, job_of, pipes=lambda run: run.job_id),
        Column("task", 20, lambda run: run.task),
        Column("status", 10, lambda run: run.status, kind=Kind.STATUS),
        Column("started", 8, lambda run: run.start_time),
        Column("try", 3, lambda run: run.attempt_number),
        Column("progress", 12, progress_of),
    ),
)


@click.command("top", epilog=EXAMPLES)
@click.option(
    "--every", type=FiniteRange(0.2, 3_600), default=1.0, show_default=True, metavar="SECONDS", help="Refresh interval."
)
@click.option("--once", is_flag=True, help="Print once and exit.")
@options(SERVER)
def command(url: str | None, output: Output, every: float, once: bool) -> None:
    """Watch queues, workers and running runs."""
    with asking(url, as_json=output.as_json) as client:
        if output.as_data:
            tell_data(_plain(client), output)
        elif once or not sys.stdout.isatty():
            print_lines(_lines(client, output))
        else:
            watch(lambda: _lines(client, output), msgspec.structs.replace(output, every=every))


def _plain(client: Client) -> dict[str, Any]:
    from oncue.client import fleet, runs

    running = client.ask(runs.page(status="running", limit=MOST_RUNS).plain())
    return {
        "queues": client.ask(fleet.queues().plain())["queues"],
        "workers": client.ask(fleet.workers().plain())["workers"],
        "runs": running["runs"],
    }


def _lines(client: Client, output: Output) -> list[str]:
    running = client.runs.page(status="running", limit=MOST_RUNS).items
    return [
        *_section("Queues", QUEUES, client.queues.list(), output),
        *_section("Workers", WORKERS, client.workers.list(), output),
        *_section("Running", RUNNING, running, output),
    ]


def _section(title: str, table: Table[Any], items: Sequence[Any], output: Output) -> list[str]:
    shown = click.style(title, bold=True) if coloured() else title
    return [shown, *(lines_of(table, items, output) if items else ["none"]), ""]
