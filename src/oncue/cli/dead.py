"""`oncue dead`: inspect, requeue and discard dead letters."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from oncue.cli.asking import LISTS, PAGES, SERVER, asking, tell, tell_data, tell_list
from oncue.cli.output import Output
from oncue.cli.printing import say
from oncue.cli.refusing import refuse
from oncue.cli.roles import options
from oncue.cli.showing import DEAD, show_run

if TYPE_CHECKING:
    from oncue.client import Requeued

EXAMPLES = """\b
Examples:
  oncue dead list
  oncue dead show RUN_ID
  oncue dead requeue RUN_ID RUN_ID
  oncue dead requeue --all --task hello
  oncue dead discard --all --until 2027-01-01T00:00:00Z --yes
"""
WHICH = (
    click.argument("run_ids", nargs=-1, metavar="[RUN_ID]..."),
    click.option("--all", "everything", is_flag=True, help="All that match the filters, instead of ids."),
    click.option("--task", help="With --all: of this task."),
    click.option("--queue", help="With --all: of this queue."),
    click.option("--job", "job_id", metavar="JOB_ID", help="With --all: of this job."),
    click.option("--from", "start_time", metavar="INSTANT", help="With --all: scheduled for this time or later."),
    click.option("--until", "end_time", metavar="INSTANT", help="With --all: scheduled for before this."),
    click.option("--yes", is_flag=True, help="Do not ask for confirmation of --all."),
)


@click.group("dead", epilog=EXAMPLES)
def command() -> None:
    """Inspect, requeue and discard dead letters."""


LIST = """\b
Examples:
  oncue dead list --limit 10
  oncue dead list --task hello --from 2027-01-01T00:00:00Z --json | jq '.dead_letters[].payload'
"""


@command.command("list", epilog=LIST)
@click.option("--task")
@click.option("--queue")
@click.option("--job", "job_id", metavar="JOB_ID")
@click.option("--from", "start_time", metavar="INSTANT", help="Runs scheduled for this time or later.")
@click.option("--until", "end_time", metavar="INSTANT", help="Runs scheduled for before this.")
@options(PAGES, LISTS)
def list_(url: str | None, output: Output, limit: int, **filters: Any) -> None:
    """List dead letters, newest first."""
    from oncue.client import dead_letters

    with asking(url, as_json=output.as_json) as client:
        call = dead_letters.page(**filters)
        tell_list(client, call, DEAD, limit, output)


@command.command("show", epilog="\b\nExamples:\n  oncue dead show RUN_ID --json | jq .payload")
@click.argument("run_id")
@options(SERVER)
def show(url: str | None, output: Output, run_id: str) -> None:
    """Show a dead letter with its payload and attempts."""
    import msgspec

    from oncue.client import DeadLetter, dead_letters

    with asking(url, as_json=output.as_json) as client:
        found = client.ask(dead_letters.show(run_id).plain())
        if found["status"] != "dead":
            refuse(f"Run {run_id} is not a dead letter; see `oncue runs show {run_id}`.", as_json=output.as_json)
        if output.as_data:
            tell_data(found, output)
        else:
            show_run(msgspec.convert(found, DeadLetter), output)


REQUEUE = """\b
Examples:
  oncue dead requeue RUN_ID
  oncue dead requeue --all --task hello --yes
"""


@command.command("requeue", epilog=REQUEUE)
@options(WHICH, SERVER)
def requeue(url: str | None, output: Output, **which: Any) -> None:
    """Requeue dead letters, each as a new run."""
    from oncue.client import dead_letters

    def show_requeued(made: Requeued, _: Output) -> None:
        say("\n".join([f"requeued {made.count}", *made.run_ids]))

    _on_selected(url, output, which, "requeue", dead_letters.requeue, show_requeued)


DISCARD = """\b
Examples:
  oncue dead discard RUN_ID
  oncue dead discard --all --until 2027-01-01T00:00:00Z --yes
"""


@command.command("discard", epilog=DISCARD)
@options(WHICH, SERVER)
def discard(url: str | None, output: Output, **which: Any) -> None:
    """Discard dead letters; their runs stay in the history."""
    from oncue.client import dead_letters

    def show_discarded(count: int, _: Output) -> None:
        say(f"discarded {count}")

    _on_selected(url, output, which, "discard", dead_letters.discard, show_discarded)


def _on_selected(
    url: str | None,
    output: Output,
    which: dict[str, Any],
    doing: str,
    build: Callable[..., Any],
    show_it: Callable[[Any, Output], None],
) -> None:
    run_ids, everything, yes = which.pop("run_ids"), which.pop("everything"), which.pop("yes")
    fitting = {name: value for name, value in which.items() if value is not None}
    if bool(run_ids) == everything or (run_ids and fitting):
        raise click.UsageError("give either RUN_IDs or --all with any filters")
    if everything and not yes:
        what = ", ".join(f"{name} {value}" for name, value in fitting.items()) or "no filter"
        click.confirm(f"{doing.capitalize()} all your dead letters ({what})?", abort=True, err=True)
    call = build(run_ids) if run_ids else build(filter=fitting)
    with asking(url, as_json=output.as_json) as client:
        tell(client, call, show_it, output)
