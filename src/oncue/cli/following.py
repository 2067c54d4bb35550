"""Wait for a run to end: with its log as it grows, or with a progress bar."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

from oncue.cli.asking import tell_data
from oncue.cli.output import Output, say_sentence
from oncue.cli.printing import say, text
from oncue.cli.refusing import NOT_IN_TIME, refuse
from oncue.cli.sentences import ended, id_shown
from oncue.domain.errors import Invalid
from oncue.domain.instants import SECOND, parse_duration

if TYPE_CHECKING:
    from oncue.client import Client, Run

DELAYED = "A part of the log is not stored yet, because object storage is unavailable."
END_WITH_THE_RUN = {True: 0, False: 1}  # exit codes, by whether the run succeeded


def seconds(_: click.Context, __: click.Parameter, value: str | None) -> float | None:
    """Parse an option that is a duration, like 5m, into seconds."""
    try:
        return None if value is None else parse_duration(value, "") / SECOND
    except Invalid as wrong:
        raise click.BadParameter(wrong.problems[0].message) from None


WAIT = (
    click.option("--wait", is_flag=True, help="Follow the log until the run ends; exit code 0 only if it succeeded."),
    click.option(
        "--timeout",
        "wait_timeout",
        metavar="TIME",
        callback=seconds,
        help="With --wait: at most this long, like 5m; then exit code 4.",
    ),
)


def check_wait(wait: bool, timeout: float | None, option: str = "--timeout") -> None:
    if timeout is not None and not wait:
        raise click.UsageError(f"{option} needs --wait: it limits how long the command waits.")


def follow(client: Client, run_id: UUID, timeout: float | None, output: Output) -> bool:
    """Print the log of a run as it grows, then its outcome. Returns whether it succeeded."""
    from oncue.client.waiting import LogFollowing

    log = LogFollowing(run_id, None)

    def seen(_: Run[Any]) -> None:
        say(log.read(client.ask(log.more())), nl=False)

    succeeded = _waited(client, run_id, timeout, output, None if output.as_data else seen)
    if log.delayed:
        say(f"{DELAYED} Read it later with `oncue runs logs {id_shown(run_id, output)} --follow`.", err=True)
    return succeeded


def wait_for(client: Client, run_id: UUID, timeout: float | None, output: Output) -> bool:
    """Wait for a run, with a progress bar on terminals, and print its outcome. Returns whether it succeeded."""
    if not sys.stderr.isatty():
        return _waited(client, run_id, timeout, output, None)
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        shown = bar.add_task("waiting", total=None)

        def show(run: Run[Any]) -> None:
            told: Any = run.progress
            bar.update(shown, description=run.status)
            if told is not None and told.total:
                bar.update(shown, completed=told.done or 0, total=told.total)
            if run.final:
                bar.stop()

        return _waited(client, run_id, timeout, output, show)


def _waited(
    client: Client, run_id: UUID, timeout: float | None, output: Output, seen: Callable[[Run[Any]], None] | None
) -> bool:
    from oncue.client import ServerUnreachable, WaitTimeout, runs

    try:
        run = client.runs.wait(run_id, timeout, check=False, seen=seen)
    except WaitTimeout as late:
        refuse(str(late), as_json=output.as_json, title="Not In Time", code=NOT_IN_TIME)
    except KeyboardInterrupt:
        shown = id_shown(run_id, output)
        say(f"Run {shown} continues. Wait for it with `oncue runs wait {shown}`.", err=True)
        raise
    except ServerUnreachable:
        shown = id_shown(run_id, output)
        if not output.as_json:
            say(f"Run {shown} may still be running. Wait for it again with `oncue runs wait {shown}`.", err=True)
        raise
    if output.as_data:
        tell_data(client.ask(runs.show(run_id).plain()), output)
    else:
        say_sentence(ended(run, output), output)
        if run.status == "succeeded" and run.result is not None:
            say(f"Result: {text(run.result, longest=None)}")
    return run.status == "succeeded"


def follow_log(client: Client, run_id: UUID, tail: int | None = None) -> None:
    """Print a run's log as it grows, until the run ends and all of its log is stored."""

    def waits() -> None:
        say(f"The run has ended. {DELAYED} This waits for it; Ctrl-C ends it.", err=True)

    for added in client.runs.follow_logs(run_id, tail=tail, on_delay=waits):
        say(added, nl=False)


def show_log(client: Client, run_id: UUID, tail: int | None = None) -> None:
    """Print a run's log so far."""
    from oncue.client import runs

    found = client.ask(runs.logs_after(run_id, 0, tail=tail))
    say(found.text.decode(errors="replace"), nl=False)
    if found.delayed:
        say(f"{DELAYED} Wait for it with --follow.", err=True)
