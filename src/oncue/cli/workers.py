"""`oncue workers`: list, show, drain and resume workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from uuid import UUID

import click

from oncue.cli.asking import LISTS, SERVER, asking, tell, tell_whole_list
from oncue.cli.completing import worker_names
from oncue.cli.each import on_each
from oncue.cli.groups import Group
from oncue.cli.naming import read_lines
from oncue.cli.output import Form, Output, say_sentence
from oncue.cli.printing import print_fields, say, text
from oncue.cli.roles import options
from oncue.cli.showing import RUNS, time
from oncue.cli.tables import Column, Kind, Table, lines_of, print_lines, short_id
from oncue.shapes.fleet import Worker

if TYPE_CHECKING:
    from oncue.client import Client
    from oncue.client.call import Call

LEAST_DIGITS = 6  # of the end of an id
MOST_RUNS = 50  # that `show` lists
HELP = """WORKER is an id, the last 6 or more digits of one, or a name. Several are accepted; - reads them from standard
input."""
EXAMPLES = f"""\b
Examples:
  oncue workers list
  oncue workers show web-1
  oncue workers drain web-1
  oncue workers resume web-1

{HELP}
"""


def _busy(worker: Worker) -> str | None:
    """Format as `3/900`: runs, and slots of all kinds."""
    return None if worker.running is None else f"{worker.running}/{sum(worker.slots.values())}"


def _status(worker: Worker) -> str:
    return (worker.status or "").replace("_", " ")


WORKERS: Table[Worker] = Table(
    "workers",
    lambda worker: worker.worker_id,
    (
        Column("name", 20, lambda worker: worker.name),
        Column("status", 8, _status, kind=Kind.STATUS, pipes=lambda worker: worker.status),
        Column("running", 9, _busy, pipes=lambda worker: worker.running),
        Column("queues", 16, lambda worker: ",".join(worker.queues)),
        Column("seen", 8, lambda worker: worker.seen_at),
        Column("tasks", 9, lambda worker: len(worker.tasks), pipes=lambda worker: ",".join(worker.tasks)),
        Column("host", 16, lambda worker: worker.host, at=120),
        Column("labels", 12, lambda worker: ",".join(worker.labels), at=120),
        Column("free", 10, lambda worker: _by_kind(worker.free_slots), at=120),
        Column("id", 8, lambda worker: worker.worker_id, kind=Kind.ID, at=200),
        Column("version", 8, lambda worker: worker.version, at=200),
        Column("started", 9, lambda worker: worker.started_at, at=200),
        Column("resources", 20, lambda worker: _resources(worker), at=200),
    ),
)
SEVERAL = click.argument(
    "given", metavar="WORKER...", nargs=-1, required=True, callback=read_lines, shell_complete=worker_names
)


def _by_kind(slots: dict[str, int]) -> str:
    return " ".join(f"{kind}:{many}" for kind, many in slots.items())


def _resources(worker: Worker) -> str:
    used, offered = worker.resources_used or {}, (worker.offer or {}).get("resources", {})
    names = [name for name in ("cpu", "memory_mb") if name in offered]
    return " ".join(f"{name}:{used.get(name, 0):g}/{offered[name]:g}" for name in names)


@click.group("workers", cls=Group, epilog=EXAMPLES)
def command() -> None:
    """List, show, drain and resume workers."""


@command.command("list", epilog="\b\nExamples:\n  oncue workers list\n  oncue workers list --watch")
@options(LISTS)
def list_(url: str | None, output: Output) -> None:
    """List workers."""
    from oncue.client import fleet

    with asking(url, as_json=output.as_json) as client:
        tell_whole_list(client, fleet.workers(), WORKERS, output)


@command.command("show", epilog=f"\b\nExamples:\n  oncue workers show web-1\n\n{HELP}")
@SEVERAL
@options(SERVER)
def show(url: str | None, output: Output, given: tuple[str, ...]) -> None:
    """Show a worker and the runs it holds."""
    from oncue.client import fleet

    def show_one(client: Client, worker_id: UUID) -> None:
        tell(client, fleet.worker(worker_id), _show, output)
        if not output.as_data:
            _show_runs(client, worker_id, output)

    with asking(url, as_json=output.as_json) as client:
        on_each(given, lambda one: show_one(client, worker_id_of(client, one)), output)


def _show(worker: Worker, output: Output) -> None:
    print_fields(
        f"worker {worker.worker_id}",
        [
            ("name", text(worker.name)),
            ("status", _status(worker)),
            ("drained", time(worker.drain_requested_at, output)),
            ("running", _busy(worker) or ""),
            ("free slots", _by_kind(worker.free_slots)),
            ("resources", _resources(worker)),
            ("queues", text(", ".join(worker.queues))),
            ("labels", text(", ".join(worker.labels))),
            ("tasks", text(", ".join(worker.tasks), longest=None)),
            ("host", text(worker.host)),
            ("version", text(worker.version)),
            ("started", time(worker.started_at, output)),
            ("last heartbeat", time(worker.seen_at, output)),
            ("lease", text(worker.lease)),
        ],
    )


def _show_runs(client: Client, worker_id: UUID, output: Output) -> None:
    from oncue.client import fleet

    page = client.ask(fleet.worker_runs_page(worker_id, limit=MOST_RUNS))
    if page.items:
        say("\nruns" if page.next_page_token is None else f"\nthe first {len(page.items)} runs")
        print_lines(lines_of(RUNS, page.items, output))


DRAIN = f"""\b
Examples:
  oncue workers drain web-1
  oncue workers list -q | oncue workers drain -

The worker takes no new runs and finishes its own; it stays until you resume it or stop its process. Needs an admin key.

{HELP}
"""


@command.command("drain", epilog=DRAIN)
@SEVERAL
@options(SERVER)
def drain(url: str | None, output: Output, given: tuple[str, ...]) -> None:
    """Drain workers: they take no new runs."""
    from oncue.client import fleet

    def drained(worker: Worker, output: Output) -> None:
        left = "" if worker.running is None else f" {_runs(worker.running)}"
        say_sentence(f"Worker {_called(worker)} is draining: it takes no new runs.{left}", output)

    _on_each(url, output, given, fleet.drain_worker, drained)


def _runs(running: int) -> str:
    if not running:
        return "It holds none."
    return "It finishes the one it holds." if running == 1 else f"It finishes the {running} it holds."


@command.command("resume", epilog=f"\b\nExamples:\n  oncue workers resume web-1\n\nNeeds an admin key.\n\n{HELP}")
@SEVERAL
@options(SERVER)
def resume(url: str | None, output: Output, given: tuple[str, ...]) -> None:
    """Resume drained workers."""
    from oncue.client import fleet

    def resumed(worker: Worker, output: Output) -> None:
        stopping = " It still takes no runs, because its process is stopping." if worker.draining else ""
        say_sentence(f"Worker {_called(worker)} is resumed.{stopping}", output)

    _on_each(url, output, given, fleet.resume_worker, resumed)


def _on_each(
    url: str | None,
    output: Output,
    given: tuple[str, ...],
    build: Callable[[UUID], Call[Worker]],
    show: Callable[[Worker, Output], None],
) -> None:
    with asking(url, as_json=output.as_json) as client:
        on_each(given, lambda one: tell(client, build(worker_id_of(client, one)), show, output), output)


def _called(worker: Worker) -> str:
    return text(worker.name) or short_id(worker.worker_id)


def worker_id_of(client: Client, given: str) -> UUID:
    """Return the id of the worker that is meant. ClientError: none, or several."""
    from oncue.client import ClientError

    workers = client.workers.list()
    digits = given.replace("-", "").lower()
    by_id = [one for one in workers if one.worker_id.hex == digits]
    by_name = [one for one in workers if one.name == given]
    by_end = [one for one in workers if len(digits) >= LEAST_DIGITS and one.worker_id.hex.endswith(digits)]
    found = by_id or by_name or by_end
    if not found:
        raise ClientError(
            f"No worker matches {given!r}. Use an id, the last {LEAST_DIGITS} or more digits of an id or a name; "
            "see `oncue workers list`."
        )
    if len(found) > 1:
        shown = click.unstyle("\n".join(lines_of(_SEVERAL, found, Output(form=Form.TABLE))))
        raise ClientError(f"Several workers match {given!r}. Use the id of one of them:\n{shown}")
    return found[0].worker_id


_SEVERAL: Table[Worker] = Table(
    "workers",
    WORKERS.id_of,
    (
        Column("id", 8, lambda worker: worker.worker_id, kind=Kind.ID),
        *(column for column in WORKERS.columns if column.name in ("name", "status", "host", "started")),
    ),
)
