"""`oncue events`: follow changes as they happen."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click
import msgspec

from oncue.cli.asking import SERVER, asking, ids_in, tell_data
from oncue.cli.columns import cut
from oncue.cli.naming import job_id_of, job_option, run_id_of
from oncue.cli.output import Form, Output
from oncue.cli.printing import say, text
from oncue.cli.roles import options
from oncue.cli.tables import short_id
from oncue.domain.instants import moment

if TYPE_CHECKING:
    from oncue.client import Event

EXAMPLES = """\b
Examples:
  oncue events
  oncue events --job greeting
  oncue events --types dead,worker
  oncue events --types pulse
  oncue events -o json | jq -r 'select(.event == "dead") | .data.run_id'

One line for each event on terminals, a line of JSON in pipes. Types are run, job, dead, worker, queue and pulse. After
an interruption it goes on by itself; `resync` says that events may be missing. Ctrl-C quits.
"""


@click.command("events", epilog=EXAMPLES)
@job_option("Only of this job: an id, the end of one, a key or a name.")
@click.option("--run", "run_id", metavar="RUN", help="Only of this run.")
@click.option("--types", metavar="A,B", help="Only events of these types.")
@click.option("--pulse", is_flag=True, help="Also the numbers of each second.")
@options(SERVER)
def command(
    url: str | None, output: Output, job_id: str | None, run_id: str | None, types: str | None, pulse: bool
) -> None:
    """Follow changes as they happen."""
    if job_id is not None and run_id is not None:
        raise click.UsageError("Give --job or --run, not both.")
    names = {"job_id": "--job", "run_id": "--run", "types": "--types", "pulse": "--pulse"}
    with asking(url, as_json=output.as_json, names=names) as client:
        job = None if job_id is None else job_id_of(client, job_id)
        run = None if run_id is None else run_id_of(client, run_id)
        wanted = None if types is None else [one.strip() for one in types.split(",")]
        for event in client.events(job=job, run=run, types=wanted, pulse=pulse):
            _print(event, output)


def _print(event: Event, output: Output) -> None:
    match output.form:
        case Form.IDS:
            for one in ids_in(event.data):
                say(one)
        case Form.YAML:
            tell_data({"event": event.kind, "id": event.id, "data": event.data}, output)
        case Form.TABLE:
            _print_line(event, output)
        case None if sys.stdout.isatty():
            _print_line(event, output)
        case _:
            say(msgspec.json.encode({"event": event.kind, "id": event.id, "data": event.data}).decode())


def _print_line(event: Event, output: Output) -> None:
    now = moment(output.clock.now())
    at = now if output.utc else now.astimezone()
    data = event.data if isinstance(event.data, dict) else {}
    line = f"{at:%H:%M:%S}  {text(event.kind):<6}  {_in_words(event.kind, data)}".rstrip()
    say(cut(line, output.width) if sys.stdout.isatty() else line)


def _in_words(kind: str, data: dict[str, Any]) -> str:
    """Format an event as a line: whose, what, and details; an unknown kind as JSON."""

    def said(*names: str) -> str:
        return "  ".join(filter(None, (text(data.get(name)) for name in names)))

    words: tuple[str, ...]
    match kind:
        case "run":
            error = "" if data.get("status") == "succeeded" else said("error_message")
            words = (_short(data, "run_id"), f"{said('status'):<10}", said("job_name") or said("task"), error)
        case "job":
            words = (_short(data, "job_id"), f"{said('status'):<10}", said("name") or said("task"), said("next_run_at"))
        case "dead":
            words = (_short(data, "run_id"), said("job_name") or said("task"), said("error_type", "error_message"))
        case "worker":
            words = (_short(data, "worker_id"), said("change").replace("_", " "), said("name"), said("host"))
        case "queue":
            words = (said("name"), said("change"))
        case "pulse":
            words = (_pulse(data),)
        case "resync":
            words = ("events may be missing before this one",)
        case _:
            words = (text(data),)
    return "  ".join(filter(None, words))


def _short(data: dict[str, Any], name: str) -> str:
    return short_id(text(data.get(name)))


def _pulse(data: dict[str, Any]) -> str:
    rates = [f"{name} {text(data.get(f'{name}_per_second')) or '-'}/s" for name in ("started", "succeeded", "failed")]
    lag = "" if data.get("lag_p99_ms") is None else f", lag p99 {data['lag_p99_ms']} ms"
    more = "+" if data.get("more") else ""
    counts = f"running {data.get('running')}, due {data.get('due')}{more}, dead letters {data.get('dead_letters')}"
    return f"{', '.join(rates)}, {counts}{lag}"
