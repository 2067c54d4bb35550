"""`oncue top`: watch queues, workers and running runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

import click
from msgspec.structs import replace

from oncue.cli.asking import SERVER, asking, tell_data
from oncue.cli.columns import cut
from oncue.cli.numbers import FiniteRange
from oncue.cli.output import Output, coloured
from oncue.cli.printing import STYLES
from oncue.cli.roles import options
from oncue.cli.showing import job_of, progress_of
from oncue.cli.tables import Column, Kind, Table, lines_of, print_lines
from oncue.cli.watching import watch
from oncue.clock import Clock
from oncue.domain.instants import MINUTE, SECOND, Duration, Instant, instant, parse_duration
from oncue.domain.plain_text import printable
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

q or Ctrl-C leaves. A worker that is gone is shown as lost for a minute if its heartbeats had stopped, else as ended for
10 seconds. In a pipe, or with --json, it prints once and exits.
"""
HOW_TO_LEAVE = "q or Ctrl-C leaves"
MOST_RUNS = 20
PROBLEMS_EVERY = Duration(5 * SECOND)
LOST_FOR, ENDED_FOR = MINUTE, Duration(10 * SECOND)  # how long a worker that is gone is shown: a deployment ends many
LOST_AFTER = 0.4  # of its lease: two heartbeats are missing

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
        elif not sys.stdout.isatty():
            print_lines(_lines(client, output, client.workers.list()))
        elif once:
            print_lines(Screen(client, output).lines())
        else:
            screen, output = Screen(client, output), replace(output, every=every)
            watch(screen.lines, output, click.style(HOW_TO_LEAVE, dim=True) if coloured() else HOW_TO_LEAVE)


class Screen:
    """What is shown again and again."""

    def __init__(self, client: Client, output: Output) -> None:
        self._client = client
        self._output = output
        self._workers = SeenWorkers(output.clock)
        self._problem, self._look_at = "", Instant(0)

    def lines(self) -> list[str]:
        now = self._output.clock.monotonic()
        if not self._problem or now >= self._look_at:
            self._problem, self._look_at = first_problem(self._client, self._output), Instant(now + PROBLEMS_EVERY)
        workers = self._workers.with_gone(self._client.workers.list())
        return [self._problem, "", *_lines(self._client, self._output, workers)]


def first_problem(client: Client, output: Output) -> str:
    """Return the first thing that `oncue problems` tells, and how many more there are, in a line."""
    from oncue.client import overview

    found = client.ask(overview.problems())
    if not found:
        return "No problems."
    first, more = found[0], f", and {len(found) - 1} more" if len(found) > 1 else ""
    severity, rest = first.severity.capitalize(), f"{more}: see `oncue problems`"
    title = cut(printable(first.title), output.width - len(f"{severity}: {rest}"))
    colour = STYLES.get(first.severity)
    return f"{click.style(severity, fg=colour) if colour and coloured() else severity}: {title}{rest}"


class SeenWorkers:
    """The workers that were there, with when their heartbeats were seen: the server forgets those that are gone."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._looked_at = clock.monotonic()
        self._there: dict[UUID, tuple[Worker, Instant]] = {}  # and since when its last heartbeat is the last
        self._gone: dict[UUID, tuple[Worker, Instant]] = {}  # and until when it is shown

    def with_gone(self, workers: Sequence[Worker]) -> list[Worker]:
        """Return these workers, and those that went lately."""
        now, here = self._clock.monotonic(), {worker.worker_id for worker in workers}
        for worker_id, (worker, since) in self._there.items():
            if worker_id not in here:
                lost = self._looked_at - since > LOST_AFTER * parse_duration(worker.lease or "15s", "lease")
                until = Instant(now + (LOST_FOR if lost else ENDED_FOR))
                self._gone[worker_id] = replace(worker, status="lost" if lost else "ended"), until
        self._gone = {one: seen for one, seen in self._gone.items() if one not in here and seen[1] > now}
        self._there = {worker.worker_id: (worker, self._beaten_at(worker, now)) for worker in workers}
        self._looked_at = now
        return [*workers, *(worker for worker, _ in self._gone.values())]

    def _beaten_at(self, worker: Worker, now: Instant) -> Instant:
        before = self._there.get(worker.worker_id)
        if before is not None:
            return before[1] if before[0].seen_at == worker.seen_at else now
        age = 0 if worker.seen_at is None else max(0, self._clock.now() - instant(worker.seen_at))
        return Instant(now - age)


def _plain(client: Client) -> dict[str, Any]:
    from oncue.client import fleet, runs

    running = client.ask(runs.page(status="running", limit=MOST_RUNS).plain())
    return {
        "queues": client.ask(fleet.queues().plain())["queues"],
        "workers": client.ask(fleet.workers().plain())["workers"],
        "runs": running["runs"],
    }


def _lines(client: Client, output: Output, workers: Sequence[Worker]) -> list[str]:
    running = client.runs.page(status="running", limit=MOST_RUNS).items
    return [
        *_section("Queues", QUEUES, client.queues.list(), output),
        *_section("Workers", WORKERS, workers, output),
        *_section("Running", RUNNING, running, output),
    ]


def _section(title: str, table: Table[Any], items: Sequence[Any], output: Output) -> list[str]:
    shown = click.style(title, bold=True) if coloured() else title
    return [shown, *(lines_of(table, items, output) if items else ["none"]), ""]
