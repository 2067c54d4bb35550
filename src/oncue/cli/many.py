"""--all: act on all jobs, runs or dead letters that match filters, in a bulk that the server works through.

@command.command("pause")
@options(JOBS_OR_ALL, SERVER)          # JOBs, or --all with filters and --yes, as one `which`
def pause(url: str | None, output: Output, which: Which) -> None: ...
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from threading import Event as Never
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from oncue.cli import naming
from oncue.cli.asking import tell_data
from oncue.cli.completing import job_names, queue_names, run_names, task_names
from oncue.cli.naming import job_id_of
from oncue.cli.output import Output, say_sentence
from oncue.cli.printing import say, text
from oncue.cli.refusing import REFUSED, confirm
from oncue.cli.sentences import id_shown
from oncue.cli.time_option import TIME
from oncue.shapes.bulk import Bulk, BulkPreview

if TYPE_CHECKING:
    from oncue.client import Client

F = TypeVar("F", bound=Callable[..., Any])

LOOK_INTERVAL = 0.3  # seconds
AGAIN = frozenset({"retry", "requeue"})  # names of one act: run again
DID = {"cancel": "Cancelled", "run": "Created a run of", **dict.fromkeys(AGAIN, "Run again:")}
NOUNS = {"jobs": ("job", "jobs"), "runs": ("run", "runs"), "dead_letters": ("dead letter", "dead letters")}


class Which(msgspec.Struct, frozen=True):
    """The arguments, or with --all the filters."""

    given: tuple[str, ...] = ()
    everything: bool = False
    filter: dict[str, Any] = {}
    yes: bool = False

    def check(self, metavar: str) -> None:
        if bool(self.given) == self.everything or (self.given and self.filter):
            raise click.UsageError(f"give either {metavar}s or --all with any filters")


def _into_which(metavar: str) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        @wraps(function)
        def called(*args: Any, **typed: Any) -> Any:
            found = {name.removeprefix("filter_"): typed.pop(name) for name in [*typed] if name.startswith("filter_")}
            filters = {name: value for name, value in found.items() if value is not None}
            which = Which(typed.pop("which_given"), typed.pop("everything"), filters, typed.pop("yes"))
            which.check(metavar)
            return function(*args, which=which, **typed)

        return called  # type: ignore[return-value]  # click passes arguments by name

    return decorate


def _arguments(metavar: str, complete: Any) -> Callable[[F], F]:
    return click.argument(
        "which_given", nargs=-1, metavar=f"[{metavar}]...", callback=naming.read_lines, shell_complete=complete
    )


def _filter(option: str, name: str, words: str, **how: Any) -> Callable[[F], F]:
    return click.option(option, f"filter_{name}", help=f"With --all: {words}", **how)


_ALL = click.option("--all", "everything", is_flag=True, help="All that match the filters, instead of arguments.")
_YES = click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation. Needed without a terminal.")
_TASK = _filter("--task", "task", "of this task.", shell_complete=task_names)
_QUEUE = _filter("--queue", "queue", "of this queue.", shell_complete=queue_names)
_JOB = _filter("--job", "job_id", "of this job.", metavar="JOB", shell_complete=job_names)
_STATUS = _filter("--status", "status", "with this status; several with commas.", metavar="STATUS")
_USER = _filter("--user", "user_id", "of this user (admin).")
_SCHEDULED = (
    _filter("--from", "start_time", "scheduled for this time or later.", type=TIME),
    _filter("--until", "end_time", "scheduled for before this.", type=TIME),
)
JOBS_OR_ALL = (
    _arguments("JOB", job_names),
    *(_ALL, _STATUS, _TASK),
    _filter("--name", "name", "with exactly this name."),
    _filter("--prefix", "name_prefix", "whose name begins with this.", metavar="TEXT"),
    _filter("--tag", "tag", "with this tag."),
    _QUEUE,
    _filter("--from", "start_time", "whose next run is at this time or later.", type=TIME),
    _filter("--until", "end_time", "whose next run is before this.", type=TIME),
    *(_USER, _YES, _into_which("JOB")),
)
RUNS_OR_ALL = (
    *(_arguments("RUN", run_names), _ALL, _STATUS, _JOB, _TASK, _QUEUE, *_SCHEDULED),
    *(_USER, _YES, _into_which("RUN")),
)
LETTERS_OR_ALL = (
    *(_arguments("RUN", run_names), _ALL, _TASK, _QUEUE, _JOB, *_SCHEDULED),
    _filter("--fingerprint", "fingerprint", "of this group of errors; see `oncue errors`.", metavar="HEX"),
    *(_USER, _YES, _into_which("RUN")),
)


def confirmed(what: str, which: Which) -> None:
    """Ask whether to go on, unless --yes was given."""
    if which.yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError("--all needs --yes without a terminal; see what it matches with `list`")
    confirm(f"{what}?")


def doing(action: str, what: str) -> str:
    """`Cancel 3 runs`; what is run again stands between the words: `Run 3 runs again`."""
    return f"Run {what} again" if action in AGAIN else f"{action.capitalize()} {what}"


def filter_of(client: Client, which: Which) -> dict[str, Any]:
    """Return the filter as the API takes it."""
    found = dict(which.filter)
    if "job_id" in found:
        found["job_id"] = job_id_of(client, found["job_id"])
    return found


def act_on_all(client: Client, which: Which, action: str, of: str, output: Output, **how: Any) -> None:
    """Start a bulk, show how far it is, and say how it ended. Exit code 1 if it could not do everything."""
    fitting = filter_of(client, which)
    found = client.bulk.preview(action, of=of, filter=fitting)
    if not found.count and not found.at_least:
        say_sentence(f"No {NOUNS[of][1]} match.", output, err=True)
        return
    confirmed(doing(action, _counted(found, of)), which)
    bulk = client.bulk.start(action, of=of, filter=fitting, **how)
    if not output.as_data:
        shown = id_shown(bulk.bulk_id, output)
        say_sentence(
            f"Started bulk {shown}. It goes on without this command: `oncue bulk show {shown}`.", output, err=True
        )
    ended = followed(client, bulk)
    if output.as_data:
        tell_data(msgspec.to_builtins(ended), output)
    else:
        say_ended(ended, output)
    if ended.state != "finished" or ended.refused:
        sys.exit(REFUSED)


def followed(client: Client, bulk: Bulk) -> Bulk:
    """Wait until a bulk has ended, with a bar on terminals."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        shown = bar.add_task(bulk.action, total=bulk.total)
        while not bulk.ended:
            bar.update(shown, completed=bulk.done + bulk.refused)
            Never().wait(LOOK_INTERVAL)
            bulk = client.bulk.get(bulk.bulk_id)
    return bulk


def say_ended(bulk: Bulk, output: Output) -> None:
    """Say how a bulk ended, and what it could not do."""
    verb = DID.get(bulk.action, f"{bulk.action.capitalize().removesuffix('e')}ed")
    end = "." if bulk.state == "finished" else f", then {bulk.state}{': ' + text(bulk.why) if bulk.why else ''}."
    say_sentence(f"{verb} {_many(bulk.done, bulk.of)}{end}", output)
    if bulk.refused:
        say_sentence(f"{_many(bulk.refused, bulk.of)} could not be processed:", output, err=True)
        for one in bulk.reasons:
            say(f"  {id_shown(one.id, output)}: {text(one.reason, longest=None)}", err=True)


def _counted(found: BulkPreview, of: str) -> str:
    return f"{found.count:,} {NOUNS[of][1]} or more" if found.at_least else _many(found.count, of)


def _many(count: int, of: str) -> str:
    one, several = NOUNS[of]
    return f"1 {one}" if count == 1 else f"{count:,} {several}"
