"""Find the JOB or RUN that an argument means: an id, the end or the beginning of one, a key, or a name.

The server looks the text up (`GET /v1/lookup`); a full id is not looked up. Arguments may be several, and `-` stands
for the lines of standard input: `oncue runs list --status dead -q | oncue runs retry -`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

import click

from oncue.cli.completing import job_names, run_names
from oncue.cli.output import Form, Output
from oncue.cli.printing import say
from oncue.cli.tables import Column, Kind, Table, lines_of, short_id
from oncue.shapes.lookup import FoundJob, FoundRun, FoundWorker, Lookup

if TYPE_CHECKING:
    from oncue.client import Client

T = TypeVar("T", FoundJob, FoundRun, FoundWorker)
F = TypeVar("F", bound=Callable[..., Any])

ONLY_BEGINS = "prefix"  # a match that helps to complete a name, and names no object
HELP = """JOB is an id or the last 6 or more digits of one, a key, or a name. Several are accepted; - reads them from
standard input."""
RUN_HELP = """RUN is an id or the last 6 or more digits of one, or the key or name of a job: then its newest run.
Several are accepted; - reads them from standard input."""

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
    if any(not text.strip() for text in given):
        raise click.UsageError("an argument is empty; give an id, a key or a name")
    typed = [line.strip() for text in given for line in (sys.stdin if text == "-" else [text])]
    found = tuple(dict.fromkeys(text for text in typed if text))
    if given and not found:
        say("Standard input is empty; nothing to do.", err=True)
        ctx.exit()
    return found


def _several(name: str, metavar: str, complete: Any) -> Callable[[F], F]:
    return click.argument(
        name, metavar=f"{metavar}...", nargs=-1, required=True, callback=read_lines, shell_complete=complete
    )


JOBS = _several("given_jobs", "JOB", job_names)
RUNS = _several("given_runs", "RUN", run_names)
JOB = click.argument("job", metavar="JOB", shell_complete=job_names)


def job_option(text: str = "Of this job: an id, the end of one, a key or a name.") -> Callable[[F], F]:
    return click.option("--job", "job_id", metavar="JOB", shell_complete=job_names, help=text)


def job_id_of(client: Client, given: str) -> str:
    """Return the id of the job that is meant. ClientError: none, or several."""
    return _full(given) or _only("job", given, _looked_up(client, given, "job").jobs, _JOBS).job_id


def run_id_of(client: Client, given: str, *, dead: bool = False) -> str:
    """Return the id of the run that is meant; of a job, its newest run, or its newest dead letter."""
    from oncue.client import ClientError

    if (full := _full(given)) is not None:
        return full
    found = _looked_up(client, given, "run,job,task")
    runs = [run for run in found.runs if run.match != ONLY_BEGINS]
    if runs:
        return _only("run", given, runs, _RUNS).run_id
    if not found.jobs and any(task.name == given for task in found.tasks):
        raise ClientError(f"{given!r} is a task; see `oncue runs list --task {given}` for the ids of its runs.")
    job = _only("run", given, found.jobs, _JOBS)
    newest = client.runs.page(job_id=job.job_id, status="dead" if dead else None, limit=1).items
    if not newest:
        raise ClientError(
            f"Job {short_id(job.job_id)} {named(job.name)} has no {'dead letter' if dead else 'run'} yet."
        )
    say(f"Run {short_id(newest[0].run_id)} is the newest of job {short_id(job.job_id)} {named(job.name)}.", err=True)
    return newest[0].run_id


def worker_id_of(client: Client, given: str) -> str:
    """Return the id of the worker that is meant: by its id, the end of it, or its name."""
    return _full(given) or _only("worker", given, _looked_up(client, given, "worker").workers, _WORKERS).worker_id


def named(name: str | None) -> str:
    return f'"{name}"' if name else "(no name)"


def _full(given: str) -> str | None:
    try:
        return str(UUID(given))
    except ValueError:
        return None


def _looked_up(client: Client, given: str, kind: str) -> Lookup:
    from oncue.client import ClientError, OncueApiError
    from oncue.client.fleet import lookup

    try:
        return client.ask(lookup(given, kind=kind))
    except OncueApiError as no:
        if no.status != 422:
            raise
        raise ClientError(f"{kind.partition(',')[0].upper()}: {no.errors[0].message}") from None


def _only(what: str, given: str, found: Sequence[T], table: Table[T]) -> T:
    """Return the one with the strongest match."""
    from oncue.client import ClientError

    meant = [one for one in found if one.match != ONLY_BEGINS]
    if not meant:
        known = next((one.name or one.key for one in found if isinstance(one, FoundJob)), None)
        nearest = "" if known is None else f" Did you mean {known!r}?"
        raise ClientError(
            f"No {what} matches {given!r}.{nearest} Use an id, the last 6 or more digits of an id, a key or a name; "
            f"see `oncue {what}s list`."
        )
    best = [one for one in meant if one.match == meant[0].match]
    if len(best) > 1:
        shown = click.unstyle("\n".join(lines_of(table, best, Output(form=Form.TABLE))))
        raise ClientError(f"Several {table.name} match {given!r}. Use the id of one, such as:\n{shown}")
    if isinstance(best[0], FoundJob) and best[0].match == "ended_name":
        say(f"Job {short_id(best[0].job_id)} {named(given)} has ended: {best[0].status}.", err=True)
    return best[0]
