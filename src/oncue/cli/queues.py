"""`oncue queues`: list, show, pause and resume queues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from oncue.cli import times
from oncue.cli.asking import LISTS, SERVER, asking, tell, tell_whole_list
from oncue.cli.completing import queue_names
from oncue.cli.each import on_each
from oncue.cli.groups import Group
from oncue.cli.naming import read_lines
from oncue.cli.output import Output, say_sentence
from oncue.cli.printing import print_fields, say, text
from oncue.cli.roles import options
from oncue.cli.showing import time
from oncue.cli.tables import Column, Table, lines_of, print_lines, short_id
from oncue.shapes.fleet import Queue

if TYPE_CHECKING:
    from typing import Any

    from oncue.client.call import Call

EXAMPLES = """\b
Examples:
  oncue queues list
  oncue queues show mail
  oncue queues pause mail
  oncue queues resume mail

QUEUE is a name. Several are accepted; - reads them from standard input.
"""


def _seconds(many: float | None) -> timedelta | None:
    return None if many is None else timedelta(seconds=many)


def _milliseconds(many: float | None) -> timedelta | None:
    return None if many is None else timedelta(milliseconds=many)


def _due(queue: Queue) -> str | int:
    return f"{queue.due}+" if queue.more else queue.due


def _priorities(queue: Queue) -> str:
    """Format as `high:1 normal:20`."""
    depths: Counter[str] = Counter()
    for one in queue.classes:
        depths[one.get("priority", "normal")] += one.get("depth", 0)
    return " ".join(f"{name}:{depths[name]}" for name in ("high", "normal", "low") if depths[name])


def _classes(queue: Queue) -> str:
    return " ".join(f"{one.get('task')}:{one.get('depth')}" for one in queue.classes if one.get("depth"))


QUEUES: Table[Queue] = Table(
    "queues",
    lambda queue: queue.name,
    (
        Column("name", 24, lambda queue: queue.name),
        Column("waiting", 9, lambda queue: max(0, queue.depth - queue.running)),
        Column("running", 9, lambda queue: queue.running),
        Column("oldest", 9, lambda queue: _seconds(queue.oldest_due_seconds)),
        Column("workers", 9, lambda queue: len(queue.workers)),
        Column("paused", 8, lambda queue: queue.paused_since),
        Column("due", 6, _due, at=120),
        Column("priorities", 20, _priorities, at=120),
        Column("late p99", 8, lambda queue: _milliseconds(queue.lag_p99_ms), at=120),
        Column("per minute", 10, lambda queue: queue.rate_per_minute, at=120),
        Column("drains in", 9, lambda queue: _seconds(queue.drain_seconds) if queue.due else None, at=120),
        Column("paused by", 12, lambda queue: queue.paused_by, at=200),
        Column("classes", 40, _classes, at=200, pipes=lambda queue: queue.classes),
    ),
)
SEVERAL = click.argument(
    "given", metavar="QUEUE...", nargs=-1, required=True, callback=read_lines, shell_complete=queue_names
)


@click.group("queues", cls=Group, epilog=EXAMPLES)
def command() -> None:
    """List, show, pause and resume queues."""


@command.command("list", epilog="\b\nExamples:\n  oncue queues list\n  oncue queues list --watch 5s")
@options(LISTS)
def list_(url: str | None, output: Output) -> None:
    """List queues with depth, lag and workers."""
    from oncue.client import fleet

    with asking(url, as_json=output.as_json) as client:
        tell_whole_list(client, fleet.queues(), QUEUES, output)


@command.command("show", epilog="\b\nExamples:\n  oncue queues show mail")
@SEVERAL
@options(SERVER)
def show(url: str | None, output: Output, given: tuple[str, ...]) -> None:
    """Show a queue and what is in it."""
    from oncue.client import fleet

    _on_each(url, output, given, fleet.queue, _show)


@command.command("pause", epilog="\b\nExamples:\n  oncue queues pause mail\n\nNeeds an admin key.")
@SEVERAL
@options(SERVER)
def pause(url: str | None, output: Output, given: tuple[str, ...]) -> None:
    """Pause queues: no run starts; active ones continue."""
    from oncue.client import fleet

    def paused(queue: Queue, output: Output) -> None:
        say_sentence(f"Queue {text(queue.name)} is paused; {_open(queue)}.", output)

    _on_each(url, output, given, fleet.pause_queue, paused)


@command.command("resume", epilog="\b\nExamples:\n  oncue queues resume mail\n\nNeeds an admin key.")
@SEVERAL
@options(SERVER)
def resume(url: str | None, output: Output, given: tuple[str, ...]) -> None:
    """Resume paused queues."""
    from oncue.client import fleet

    def resumed(queue: Queue, output: Output) -> None:
        say_sentence(f"Queue {text(queue.name)} is resumed; {_open(queue)}.", output)

    _on_each(url, output, given, fleet.resume_queue, resumed)


def _open(queue: Queue) -> str:
    waiting = max(0, queue.depth - queue.running)
    return f"{waiting} {'run waits' if waiting == 1 else 'runs wait'}, {queue.running} running"


def _on_each(
    url: str | None,
    output: Output,
    given: tuple[str, ...],
    build: Callable[[str], Call[Queue]],
    show: Callable[[Queue, Output], None],
) -> None:
    from oncue.client import ClientError, NotFound

    with asking(url, as_json=output.as_json) as client:

        def act(name: str) -> None:
            try:
                tell(client, build(name), show, output)
            except NotFound:
                raise ClientError(f"No queue is called {name!r}; see `oncue queues list`.") from None

        on_each(given, act, output)


_CLASSES: Table[dict[str, Any]] = Table(
    "classes",
    lambda one: str(one.get("task")),
    (
        Column("task", 24, lambda one: one.get("task")),
        Column("priority", 8, lambda one: one.get("priority")),
        Column("depth", 8, lambda one: one.get("depth")),
        Column("labels", 20, lambda one: ",".join(one.get("labels", ()))),
        Column("resources", 30, lambda one: one.get("resources")),
    ),
)


def _show(queue: Queue, output: Output) -> None:
    def length(found: timedelta | None) -> str:
        return "" if found is None else times.took(found)

    print_fields(
        f"queue {text(queue.name)}",
        [
            ("paused since", time(queue.paused_since, output)),
            ("paused by", text(queue.paused_by)),
            ("open", f"{queue.depth} scheduled, waiting or running"),
            ("due", str(_due(queue))),
            ("running", str(queue.running)),
            ("oldest due", length(_seconds(queue.oldest_due_seconds))),
            ("lag p50", length(_milliseconds(queue.lag_p50_ms))),
            ("lag p99", length(_milliseconds(queue.lag_p99_ms))),
            ("per minute", text(queue.rate_per_minute)),
            ("drains in", length(_seconds(queue.drain_seconds) if queue.due else None)),
            ("workers", ", ".join(map(short_id, queue.workers))),
            ("draining", ", ".join(map(short_id, queue.draining_workers))),
        ],
    )
    if queue.classes:
        say("\nclasses")
        print_lines(lines_of(_CLASSES, queue.classes, output))
