"""`oncue dead`: inspect, requeue and discard dead letters."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from oncue.cli import naming, time_option
from oncue.cli.asking import LISTS, PAGES, SERVER, asking, tell, tell_data, tell_list
from oncue.cli.completing import queue_names, run_names, task_names
from oncue.cli.each import on_each, try_each
from oncue.cli.groups import Group
from oncue.cli.naming import RUN_HELP, job_id_of, run_id_of
from oncue.cli.output import Output, say_sentence
from oncue.cli.printing import say
from oncue.cli.refusing import REFUSED
from oncue.cli.roles import options
from oncue.cli.sentences import id_shown, runs_shown
from oncue.cli.showing import DEAD, show_run
from oncue.cli.time_option import TIME

if TYPE_CHECKING:
    from oncue.client import Client, Requeued

EXAMPLES = f"""\b
Examples:
  oncue dead list
  oncue dead show 84359e35
  oncue dead requeue 84359e35 1b9d6bcd
  oncue dead requeue --all --task hello
  oncue dead discard --all --until "30d ago" --yes

{RUN_HELP}
"""
WHICH = (
    click.argument("given_runs", nargs=-1, metavar="[RUN]...", callback=naming.read_lines, shell_complete=run_names),
    click.option("--all", "everything", is_flag=True, help="All that match the filters, instead of RUNs."),
    click.option("--task", shell_complete=task_names, help="With --all: of this task."),
    click.option("--queue", shell_complete=queue_names, help="With --all: of this queue."),
    naming.job_option("With --all: of this job."),
    click.option("--from", "start_time", type=TIME, help="With --all: scheduled for this time or later."),
    click.option("--until", "end_time", type=TIME, help="With --all: scheduled for before this."),
    click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation of --all."),
)
FILTERS = {
    **{"start_time": "--from", "end_time": "--until", "job_id": "--job"},
    **{f"filter.{name}": f"--{name}" for name in ("task", "queue")},
    **{"filter.start_time": "--from", "filter.end_time": "--until", "filter.job_id": "--job"},
    **{name: f"--{name}" for name in ("task", "queue", "limit")},
}


@click.group("dead", cls=Group, epilog=EXAMPLES)
def command() -> None:
    """Inspect, requeue and discard dead letters."""


LIST = f"""\b
Examples:
  oncue dead list --limit 10
  oncue dead list --job greeting --from "1d ago"
  oncue dead list --task hello --from 2027-01-01T00:00:00Z --json | jq '.dead_letters[].payload'

{time_option.HELP}
"""


@command.command("list", epilog=LIST)
@click.option("--task", shell_complete=task_names, help="Of this task.")
@click.option("--queue", shell_complete=queue_names, help="Of this queue.")
@naming.job_option()
@click.option("--from", "start_time", type=TIME, help="Runs scheduled for this time or later.")
@click.option("--until", "end_time", type=TIME, help="Runs scheduled for before this.")
@options(PAGES, LISTS)
def list_(url: str | None, output: Output, limit: int, job_id: str | None, **filters: Any) -> None:
    """List dead letters, newest first."""
    from oncue.client import dead_letters

    with asking(url, as_json=output.as_json, names=FILTERS) as client:
        job = None if job_id is None else job_id_of(client, job_id)
        tell_list(client, dead_letters.page(job_id=job, **filters), DEAD, limit, output)


@command.command(
    "show", epilog="\b\nExamples:\n  oncue dead show 84359e35\n  oncue dead show greeting --json | jq .payload"
)
@naming.RUNS
@options(SERVER)
def show(url: str | None, output: Output, given_runs: tuple[str, ...]) -> None:
    """Show a dead letter with payload and attempts."""
    with asking(url, as_json=output.as_json) as client:
        on_each(given_runs, lambda run: _show(client, run_id_of(client, run, dead=True), output), output)


def _show(client: Client, run_id: str, output: Output) -> None:
    import msgspec

    from oncue.client import ClientError, DeadLetter, dead_letters

    found = client.ask(dead_letters.show(run_id).plain())
    if found["status"] != "dead":
        shown = id_shown(run_id, output)
        raise ClientError(f"Run {shown} is not a dead letter; see `oncue runs show {shown}`.")
    if output.as_data:
        tell_data(found, output)
    else:
        show_run(msgspec.convert(found, DeadLetter), output)


REQUEUE = """\b
Examples:
  oncue dead requeue 84359e35
  oncue dead requeue --all --task hello --yes
  oncue dead list --from "1h ago" -q | oncue dead requeue -
"""


@command.command("requeue", epilog=REQUEUE)
@options(WHICH, SERVER)
def requeue(url: str | None, output: Output, **which: Any) -> None:
    """Requeue dead letters, each as a new run."""
    from oncue.client import dead_letters

    def show_requeued(made: Requeued, output: Output) -> None:
        some = f" as run {runs_shown(made.run_ids, output)}" if made.run_ids else ""
        say_sentence(f"Requeued {_letters(made.count)}{some}.", output)

    _on_selected(url, output, which, "requeue", dead_letters.requeue, show_requeued)


DISCARD = """\b
Examples:
  oncue dead discard 84359e35
  oncue dead discard --all --until "30d ago" --yes
"""


@command.command("discard", epilog=DISCARD)
@options(WHICH, SERVER)
def discard(url: str | None, output: Output, **which: Any) -> None:
    """Discard dead letters; their runs stay in history."""
    from oncue.client import dead_letters

    def show_discarded(count: int, _: Output) -> None:
        say(f"Discarded {_letters(count)}.")

    _on_selected(url, output, which, "discard", dead_letters.discard, show_discarded)


def _letters(count: int) -> str:
    return "1 dead letter" if count == 1 else f"{count} dead letters"


def _on_selected(
    url: str | None,
    output: Output,
    which: dict[str, Any],
    doing: str,
    build: Callable[..., Any],
    show_it: Callable[[Any, Output], None],
) -> None:
    given, everything, yes = which.pop("given_runs"), which.pop("everything"), which.pop("yes")
    fitting = {name: value for name, value in which.items() if value is not None}
    if bool(given) == everything or (given and fitting):
        raise click.UsageError("give either RUNs or --all with any filters")
    if everything and not yes:
        what = ", ".join(f"{name} {value}" for name, value in fitting.items()) or "no filter"
        click.confirm(f"{doing.capitalize()} all your dead letters ({what})?", abort=True, err=True)
    with asking(url, as_json=output.as_json, names=FILTERS) as client:
        if everything:
            if "job_id" in fitting:
                fitting["job_id"] = job_id_of(client, fitting["job_id"])
            tell(client, build(filter=fitting), show_it, output)
            return
        found: list[str] = []
        all_found = try_each(given, lambda run: found.append(run_id_of(client, run, dead=True)), output)
        if found:
            tell(client, build(found), show_it, output)
    if not all_found:
        sys.exit(REFUSED)
