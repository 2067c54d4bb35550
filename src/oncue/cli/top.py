"""`oncue top`: watch queues, workers and running runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from threading import Event as Never
from typing import TYPE_CHECKING, Any

import click

from oncue.cli.asking import SERVER, asking, tell_data
from oncue.cli.numbers import FiniteRange
from oncue.cli.output import Output
from oncue.cli.printing import print_table, rich_table, text, time
from oncue.cli.roles import options

if TYPE_CHECKING:
    from oncue.client import Client, Queue, Run, Worker

EXAMPLES = """\b
Examples:
  oncue top
  oncue top --every 5
  oncue top --once
  oncue top --json | jq '.queues[] | {name, depth}'

Ctrl-C quits. In a pipe, or with --json, it prints once and exits.
"""
MOST_RUNS = 20

Section = tuple[str, Sequence[str], Sequence[Sequence[str]]]


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
            for title, columns, rows in _sections(client):
                print_table(title, columns, rows)
        else:
            _watch(client, every)


def _plain(client: Client) -> dict[str, Any]:
    from oncue.client import fleet, runs

    running = client.ask(runs.page(status="running", limit=MOST_RUNS).plain())
    return {
        "queues": client.ask(fleet.queues().plain())["queues"],
        "workers": client.ask(fleet.workers().plain())["workers"],
        "runs": running["runs"],
    }


def _watch(client: Client, every: float) -> None:
    from rich.live import Live

    try:
        with Live(_screen(client), screen=True, auto_refresh=False) as live:
            while True:
                Never().wait(every)
                live.update(_screen(client), refresh=True)
    except KeyboardInterrupt:
        pass  # the usual way to quit


def _screen(client: Client) -> Any:
    from rich.console import Group
    from rich.text import Text

    parts: list[Any] = [Text(client.url, style="bold")]
    for title, columns, rows in _sections(client):
        parts += [Text(title, style="bold"), rich_table(columns, rows) if rows else Text("  none", style="dim")]
    return Group(*parts)


def _sections(client: Client) -> list[Section]:
    queues, workers = client.queues.list(), client.workers.list()
    running = client.runs.page(status="running", limit=MOST_RUNS).items
    waiting = sum(queue.depth for queue in queues)
    return [
        (
            f"queues, {waiting} waiting or running runs",
            ("queue", "depth", "workers", "paused since"),
            [_queue(q) for q in queues],
        ),
        ("workers", ("worker", "host", "last seen", "queues", "draining"), [_worker(w) for w in workers]),
        ("running", ("run_id", "task", "started", "attempt", "progress"), [_run(run) for run in running]),
    ]


def _queue(queue: Queue) -> tuple[str, ...]:
    return text(queue.name), str(queue.depth), str(len(queue.workers)), time(queue.paused_since)


def _worker(worker: Worker) -> tuple[str, ...]:
    queues = ", ".join((worker.offer or {}).get("queues", ()))
    return text(worker.name), text(worker.host), time(worker.seen_at), text(queues), "yes" if worker.draining else ""


def _run(run: Run) -> tuple[str, ...]:
    told = run.progress
    progress = "" if told is None else f"{text(told.done)} of {text(told.total)}"
    return run.run_id, text(run.task), time(run.start_time), str(run.attempt_number), progress
