"""Wait for a run to end: with its log as it grows, or with a progress bar."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn
from uuid import UUID

import click

from oncue.cli.asking import tell_data
from oncue.cli.output import Output, say_sentence
from oncue.cli.printing import broken, say, text
from oncue.cli.reasons import Reasons
from oncue.cli.refusing import NOT_IN_TIME, refuse
from oncue.cli.sentences import ended, id_shown, ran_again
from oncue.cli.showing import explained
from oncue.domain.errors import Invalid
from oncue.domain.instants import SECOND, parse_duration
from oncue.domain.plain_text import showable

if TYPE_CHECKING:
    from oncue.client import Client, Run, WaitTimeout

DELAYED = "A part of the log is not stored yet, because object storage is unavailable."
TRACEBACK = "Traceback (most recent call last):\n"
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
WAIT_FOR_NEW = (  # where --timeout is the job's
    WAIT[0],
    click.option(
        "--wait-timeout", metavar="TIME", callback=seconds, help="With --wait: at most this long, then exit code 4."
    ),
)


def check_wait(wait: bool, timeout: float | None, option: str = "--timeout") -> None:
    if timeout is not None and not wait:
        raise click.UsageError(f"{option} needs --wait: it limits how long the command waits.")


class Folding:
    """Shortens the tracebacks of a log for a terminal: of a new one the last place and the error stay."""

    def __init__(self) -> None:
        self._rest = ""  # a line that has no end yet
        self._inside: list[str] | None = None  # the lines of a traceback so far
        self._last: list[str] = []

    def read(self, added: str, *, ends: bool = False) -> str:
        """Return what to show now; with `ends`, also what was held back."""
        *whole, self._rest = (self._rest + added).split("\n")
        shown = [line for one in whole for line in self._folded(f"{one}\n")]
        if ends or (self._inside is None and not TRACEBACK.startswith(self._rest)):
            shown += [*(self._inside or ()), self._rest]
            self._rest, self._inside = "", None
        return "".join(shown)

    def _folded(self, line: str) -> Sequence[str]:
        if self._inside is None and line != TRACEBACK:
            return (line,)
        if self._inside is None or line.startswith(" "):
            self._inside = [*(self._inside or ()), line]
            return ()
        found, self._inside = [*self._inside, line], None
        before, self._last = self._last, found
        if found == before:
            return (f"Traceback as before: {line}",)
        hidden = max((place for place, one in enumerate(found) if one.startswith('  File "')), default=1) - 1
        more = f"  … {hidden} more lines, see `oncue runs logs`\n"
        return (TRACEBACK, *([more] if hidden else ()), *found[1 + hidden :])


def follow(client: Client, run_id: UUID, timeout: float | None, output: Output) -> bool:
    """Print the log of a run as it grows, then its outcome. Returns whether it succeeded."""
    from oncue.client.waiting import LogFollowing

    log, folding = LogFollowing(run_id, None), Folding() if output.for_people else None

    def seen(run: Run[Any]) -> None:
        added = log.read(client.ask(log.more()))
        say(added if folding is None else folding.read(added, ends=run.final), nl=False)

    reasons = Reasons(client, run_id, output, lambda words: say_sentence(words, output, err=True))
    succeeded = _waited(client, reasons, run_id, timeout, output, None if output.as_data else seen)
    if log.delayed:
        say(f"{DELAYED} Read it later with `oncue runs logs {id_shown(run_id, output)} --follow`.", err=True)
    return succeeded


def follow_again(client: Client, old: UUID, new: UUID, timeout: float | None, output: Output) -> bool:
    """Say which run runs another again, and follow it. Returns whether it succeeded."""
    say_sentence(ran_again(old, new, output), output, err=True)
    return follow(client, new, timeout, output)


def wait_for(client: Client, run_id: UUID, timeout: float | None, output: Output) -> bool:
    """Wait for a run, with a progress bar on terminals, and print its outcome. Returns whether it succeeded."""
    if not sys.stderr.isatty():
        reasons = Reasons(client, run_id, output, lambda words: say_sentence(words, output, err=True))
        return _waited(client, reasons, run_id, timeout, output, None)
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

        def tell(words: str) -> None:
            bar.console.print(showable(words), markup=False, highlight=False)

        return _waited(client, Reasons(client, run_id, output, tell), run_id, timeout, output, show)


def _waited(
    client: Client,
    reasons: Reasons,
    run_id: UUID,
    timeout: float | None,
    output: Output,
    show: Callable[[Run[Any]], None] | None,
) -> bool:
    from oncue.client import ServerUnreachable, WaitTimeout, runs

    def seen(run: Run[Any]) -> None:
        if show is not None:
            show(run)
        reasons.see(run)

    try:
        run = client.runs.wait(run_id, timeout, check=False, seen=seen)
    except WaitTimeout as late:
        _refuse_late(late, reasons, output)
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


def _refuse_late(late: WaitTimeout, reasons: Reasons, output: Output) -> NoReturn:
    """End the command, with the reason why the run has not ended, unless that stands above; JSON has it in any case."""
    found = reasons.explanation()
    lines = [str(late)]
    if found is not None and (output.as_json or reasons.is_new(found)):
        lines.append(explained(found))
    if output.for_people:
        lines = [broken(line, indent="  ") for line in lines]
    refuse(*lines, as_json=output.as_json, title="Not In Time", code=NOT_IN_TIME)


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
