"""Find the JOB or RUN that an argument means, by the rule of the client (`client/naming.py`).

Arguments may be several, and `-` stands for the lines of standard input: `oncue runs list --status dead -q | oncue runs
retry -`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from shlex import quote
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

import click

from oncue.cli.completing import job_names, run_names
from oncue.cli.output import Form, Output
from oncue.cli.printing import say
from oncue.cli.refusing import refuse_empty
from oncue.cli.tables import Column, Kind, Table, lines_of, short_id
from oncue.domain.naming import Match, read_digits
from oncue.shapes.lookup import FoundJob, FoundRun, FoundWorker

if TYPE_CHECKING:
    from oncue.client import Client, ClientError
    from oncue.client.asking import Exchange
    from oncue.client.naming import MeantRun

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

HELP = """JOB is an id or the last 6 or more digits of one, a key, or a name. Several are accepted; - reads them from
standard input."""
RUN_HELP = """RUN is an id or the last 6 or more digits of one, or the key or name of a job: then its newest run.
Several are accepted; - reads them from standard input."""
LETTER_HELP = """RUN is an id or the last 6 or more digits of one, the key or name of a job, or the name of a task: then
its newest dead letter. Several are accepted; - reads them from standard input."""

_JOBS: Table[FoundJob] = Table(
    "jobs",
    lambda job: job.job_id,
    (
        Column("id", 8, lambda job: job.job_id, kind=Kind.ID),
        Column("name", 20, lambda job: job.name),
        Column("key", 20, lambda job: job.key),
        Column("status", 9, lambda job: job.status, kind=Kind.STATUS),
        Column("task", 20, lambda job: job.task),
    ),
)
_RUNS: Table[FoundRun] = Table(
    "runs",
    lambda run: run.run_id,
    (
        Column("id", 8, lambda run: run.run_id, kind=Kind.ID),
        Column("job", 20, lambda run: run.job_name or short_id(run.job_id)),
        Column("status", 10, lambda run: run.status, kind=Kind.STATUS),
        Column("task", 20, lambda run: run.task),
    ),
)


_WORKERS: Table[FoundWorker] = Table(
    "workers",
    lambda worker: worker.worker_id,
    (
        Column("id", 8, lambda worker: worker.worker_id, kind=Kind.ID),
        Column("name", 20, lambda worker: worker.name),
    ),
)


def read_lines(ctx: click.Context, _: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    """Replace `-` by the lines of standard input; the same text twice counts once."""
    refuse_empty(given, "an id, a key or a name")
    try:
        typed = [line.strip() for text in given for line in (sys.stdin if text == "-" else [text])]
        "".join(typed).encode()
    except UnicodeError:
        raise click.UsageError("standard input is not UTF-8; convert the text, as with iconv") from None
    found = tuple(dict.fromkeys(text for text in typed if text))
    if given and not found:
        say("Standard input is empty; nothing to do.", err=True)
        ctx.exit()
    return found


def several_ids(metavar: str) -> Callable[[F], F]:
    """Take ids, or their ends, as `given`."""
    return click.argument("given", metavar=f"{metavar}...", nargs=-1, required=True, callback=read_lines)


def _several(name: str, metavar: str, complete: Any) -> Callable[[F], F]:
    return click.argument(
        name, metavar=f"{metavar}...", nargs=-1, required=True, callback=read_lines, shell_complete=complete
    )


JOBS = _several("given_jobs", "JOB", job_names)
RUNS = _several("given_runs", "RUN", run_names)
JOB = click.argument("job", metavar="JOB", shell_complete=job_names)


def job_option(text: str = "Of this job: an id, the end of one, a key or a name.") -> Callable[[F], F]:
    return click.option("--job", "job_id", metavar="JOB", shell_complete=job_names, help=text)


def job_id_of(client: Client, given: str) -> UUID:
    """Return the id of the job that is meant. ClientError: none, or several."""
    from oncue.client.naming import find_job, full_id

    if (full := full_id(given)) is not None:
        return full
    found = _found(client, find_job(client, given), "job")
    if found.match == "ended_name":
        say(f"Job {short_id(found.job_id)} {named(given)} has ended: {found.status}.", err=True)
    return found.job_id


def run_id_of(client: Client, given: str) -> UUID:
    """Return the id of the run that is meant; of a job, its newest run."""
    from oncue.client.naming import find_run, full_id

    return full_id(given) or _told(given, _found(client, find_run(client, given), "run"))


def find_letter(client: Client, given: str, *, closed: bool = False) -> MeantRun:
    """Return the dead letter that is meant; of a job or task, its newest open one, or with `closed` one that was."""
    from oncue.client import naming

    if (full := naming.full_id(given)) is not None:
        return naming.MeantRun(full)
    found = _found(client, naming.find_letter(client, given, closed=closed), "run")
    _told(given, found, "newest dead letter")
    return found


def _told(given: str, found: MeantRun, what: str = "newest") -> UUID:
    """Say which run of a job or task is meant."""
    shown = short_id(found.run_id)
    if (job := found.job) is not None:
        if job.match == "ended_name":
            say(f"Job {short_id(job.job_id)} {named(given)} has ended: {job.status}.", err=True)
        say(f"Run {shown} is the {what} of job {short_id(job.job_id)} {named(job.name)}.", err=True)
    elif found.task is not None:
        said = {0: "newest dead run", 1: "only dead letter"}.get(len(found.letters))
        say(f"Run {shown} is the {said or f'newest of {letters_counted(found)}'} of task {found.task}.", err=True)
    return found.run_id


def letters_counted(found: MeantRun) -> str:
    """`3 dead letters`."""
    from oncue.client.naming import MOST_LETTERS

    more = " or more" if len(found.letters) >= MOST_LETTERS else ""
    return f"{len(found.letters)}{more} dead letters"


def worker_id_of(client: Client, given: str) -> UUID:
    """Return the id of the worker that is meant: by its id, the end of it, or its name."""
    from oncue.client.naming import find_worker, full_id

    return full_id(given) or _found(client, find_worker(client, given), "worker").worker_id


def object_id_of(client: Client, given: str) -> UUID:
    """Return the id of the job, run or API key that is meant. ClientError: none, or several."""
    from oncue.client import ClientError, Forbidden, fleet
    from oncue.client.naming import full_id

    if (full := full_id(given)) is not None:
        return full
    found = client.ask(fleet.lookup(given, kind="job,run"))
    matches = [(one.match, one.job_id) for one in found.jobs] + [(one.match, one.run_id) for one in found.runs]
    if (digits := read_digits(given)) is not None:
        with suppress(Forbidden):  # only administrators see keys
            matches += [(digits.match(key.key_id) or "", key.key_id) for key in client.keys.list()]
    for match in Match:
        best = {one for by, one in matches if by == match and match is not Match.PREFIX}
        if len(best) > 1:
            some = ", ".join(map(str, sorted(best)))
            raise ClientError(f"Several objects match {given!r}. Use the id of one: {some}.")
        if best:
            return best.pop()
    raise ClientError(f"No job, run or key matches {given!r}. Use an id, or the last 6 or more digits of one.")


def id_among(listed: Callable[[], Sequence[T]], given: str, table: Table[T], see: str) -> UUID:
    """Return the id that is meant among those of a list: for objects that are not looked up by the server.

    ClientError: none, or several. A full id is not looked for.
    """
    from oncue.client import ClientError
    from oncue.client.naming import full_id

    if (full := full_id(given)) is not None:
        return full
    found: dict[Match | None, list[T]] = {}
    if (digits := read_digits(given)) is not None:
        for one in listed():
            found.setdefault(digits.match(UUID(str(table.id_of(one)))), []).append(one)
    best = found.get(Match.ENDING) or found.get(Match.BEGINNING) or []
    if not best:
        what = table.name.removesuffix("s")
        raise ClientError(f"No {what} matches {given!r}. Use an id, or the last 6 or more digits of one; see `{see}`.")
    if len(best) > 1:
        raise _ambiguous(table, given, best)
    return UUID(str(table.id_of(best[0])))


def named(name: str | None) -> str:
    return f'"{name}"' if name else "(no name)"


def _found(client: Client, looking: Exchange[T], what: str) -> T:
    """Look up what is meant. A refusal names the commands that help, and shows several matches as a table."""
    from oncue.client import Ambiguous, ClientError, Invalid, NotFound

    try:
        return client.send(looking)
    except Invalid as no:
        raise ClientError(f"{what.upper()}: {no.errors[0].message}") from None
    except NotFound as no:
        if task := no.members.get("task"):
            words = f"{task!r} is a task; see `oncue {what}s list --task {quote(task)}` for the ids of its {what}s."
        elif "what" in no.members:
            words = f"{no.detail.removesuffix('.')}; see `oncue {what}s list`."
        else:
            words = no.detail
        raise ClientError(words) from None
    except Ambiguous as several:
        raise _ambiguous(_TABLES[type(several.found[0])], several.given, several.found) from None


def _ambiguous(table: Table[Any], given: str, found: Sequence[Any]) -> ClientError:
    from oncue.client import ClientError

    words = f"Several {table.name} match {given!r}. Use the id of one, such as:"
    return ClientError(f"{words}\n{as_table(table, found)}")


def as_table(table: Table[T], found: Sequence[T]) -> str:
    """Return these as they are listed on a terminal, for a message."""
    return click.unstyle("\n".join(lines_of(table, found, Output(form=Form.TABLE))))


_TABLES: dict[type, Table[Any]] = {FoundJob: _JOBS, FoundRun: _RUNS, FoundWorker: _WORKERS}
