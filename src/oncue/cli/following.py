"""Wait for a run to end, with a progress bar on terminals, or print its log meanwhile."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from oncue.cli.asking import tell_data
from oncue.cli.output import Output
from oncue.cli.printing import say
from oncue.cli.refusing import refuse
from oncue.cli.showing import show_run
from oncue.domain.errors import Invalid
from oncue.domain.instants import SECOND, parse_duration

if TYPE_CHECKING:
    from oncue.client import Client, Run

END_WITH_THE_RUN = {True: 0, False: 1}  # exit codes, by whether the run succeeded


def seconds(_: click.Context, __: click.Parameter, value: str | None) -> float | None:
    """Parse an option that is a duration, like 5m, into seconds."""
    try:
        return None if value is None else parse_duration(value, "") / SECOND
    except Invalid as wrong:
        raise click.BadParameter(wrong.problems[0].message) from None


def follow(client: Client, run_id: str, timeout: float | None, output: Output) -> bool:
    """Wait for a run and print its outcome. Returns whether it succeeded."""
    from oncue.client import WaitTimeout, runs

    try:
        run = _watched(client, run_id, timeout)
    except WaitTimeout as late:
        refuse(str(late), as_json=output.as_json, title="Not In Time")
    if output.as_data:
        tell_data(client.ask(runs.show(run_id).plain()), output)
    else:
        show_run(run, output)
    return run.status == "succeeded"


def _watched(client: Client, run_id: str, timeout: float | None) -> Run:
    if not sys.stderr.isatty():
        return client.runs.wait(run_id, timeout)
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        shown = bar.add_task("waiting", total=None)

        def show(run: Run) -> None:
            told: Any = run.progress
            bar.update(shown, description=run.status)
            if told is not None and told.total:
                bar.update(shown, completed=told.done or 0, total=told.total)

        return client.runs.wait(run_id, timeout, seen=show)


def follow_log(client: Client, run_id: str, tail: int | None = None) -> None:
    """Print a run's log as it grows, until the run ends."""
    for text in client.runs.follow_logs(run_id, tail=tail):
        say(text, nl=False)
