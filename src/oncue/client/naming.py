"""Find the job, run or worker that is meant: by an id, the end or the beginning of one, a key or a name.

One rule for the clients and the command line. The server looks a text up (`GET /v1/lookup`), unless it is a full id.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar
from uuid import UUID

import msgspec

from oncue.client import dead_letters, fleet, runs
from oncue.client.asking import Asker, Exchange, ask
from oncue.client.call import following
from oncue.client.errors import Ambiguous, NotFound
from oncue.shapes.lookup import FoundJob, FoundRun, FoundWorker

T = TypeVar("T", FoundJob, FoundRun, FoundWorker)

ONLY_BEGINS = "prefix"  # a match that helps to complete a name, and names no object
SHORT_ID = 8  # digits
MOST_PAGES = 50  # of dead letters, 200 each, among which one of a job is looked for


class OfJob(Protocol):
    """A job, or something of it: a run names its job, too."""

    @property
    def job_id(self) -> UUID: ...


class OfRun(Protocol):
    @property
    def run_id(self) -> UUID: ...


class OfWorker(Protocol):
    @property
    def worker_id(self) -> UUID: ...


JobRef = OfJob | UUID | str
RunRef = OfRun | UUID | str
WorkerRef = OfWorker | UUID | str


class MeantRun(msgspec.Struct, frozen=True):
    """A run that a text means: by its id, or as the newest run of `job`."""

    run_id: UUID
    job: FoundJob | None = None


def job_id_of(asker: Asker, job: JobRef) -> Exchange[UUID]:
    """Return the id of the job that is meant. NotFound: none is. Ambiguous: several."""
    if not isinstance(job, UUID | str):
        return job.job_id
    return full_id(job) or (yield from find_job(asker, job)).job_id


def run_id_of(asker: Asker, run: RunRef) -> Exchange[UUID]:
    """Return the id of the run that is meant; for the key or name of a job, of its newest run."""
    if not isinstance(run, UUID | str):
        return run.run_id
    return full_id(run) or (yield from find_run(asker, run)).run_id


def worker_id_of(asker: Asker, worker: WorkerRef) -> Exchange[UUID]:
    if not isinstance(worker, UUID | str):
        return worker.worker_id
    return full_id(worker) or (yield from find_worker(asker, worker)).worker_id


def find_job(asker: Asker, text: str | UUID) -> Exchange[FoundJob]:
    found = yield from ask(fleet.lookup(str(text), kind="job"), asker.retry_policy)
    return _only("job", str(text), found.jobs)


def find_worker(asker: Asker, text: str | UUID) -> Exchange[FoundWorker]:
    found = yield from ask(fleet.lookup(str(text), kind="worker"), asker.retry_policy)
    return _only("worker", str(text), found.workers)


def find_run(asker: Asker, text: str | UUID) -> Exchange[MeantRun]:
    """Find a run; of a job, its newest run."""
    meant = yield from _run_or_job(asker, str(text))
    if isinstance(meant, MeantRun):
        return meant
    newest = yield from _newest(asker, meant, None)
    if newest is None:
        raise _has_no("run yet", meant)
    return MeantRun(newest, meant)


def find_letter(asker: Asker, text: str | UUID, *, closed: bool = False) -> Exchange[MeantRun]:
    """Find a dead letter; of a job, its newest that is open, or with `closed` else its newest dead run."""
    meant = yield from _run_or_job(asker, str(text))
    if isinstance(meant, MeantRun):
        return meant
    newest = yield from _newest_letter(asker, meant)
    if newest is None and closed:
        newest = yield from _newest(asker, meant, "dead")
    if newest is None:
        raise _has_no("dead letter", meant)
    return MeantRun(newest, meant)


def _newest(asker: Asker, job: FoundJob, status: str | None) -> Exchange[UUID | None]:
    page = yield from ask(runs.page(job_id=job.job_id, status=status, limit=1), asker.retry_policy)
    return page.items[0].run_id if page.items else None


def _newest_letter(asker: Asker, job: FoundJob) -> Exchange[UUID | None]:
    """A page looks at some of the user's letters only, so that it may be empty although more follow."""
    call = dead_letters.page(job_id=job.job_id, limit=1)
    for _ in range(MOST_PAGES):
        page = yield from ask(call, asker.retry_policy)
        if page.items or page.next_page_token is None:
            return page.items[0].run_id if page.items else None
        call = following(call, page.next_page_token)
    words = f"Job {_called(job)} has no dead letter among your newest; see `oncue dead list --job {job.job_id}`."
    raise _not_found(words)


def _run_or_job(asker: Asker, given: str) -> Exchange[MeantRun | FoundJob]:
    found = yield from ask(fleet.lookup(given, kind="run,job,task"), asker.retry_policy)
    if found.runs:
        return MeantRun(_only("run", given, found.runs).run_id)
    if not found.jobs and any(task.name == given for task in found.tasks):
        raise _not_found(f"{given!r} is a task, not a run.", task=given)
    return _only("run", given, found.jobs)


def _has_no(what: str, job: FoundJob) -> NotFound:
    return _not_found(f"Job {_called(job)} has no {what}.")


def _called(job: FoundJob) -> str:
    return f"{str(job.job_id)[-SHORT_ID:]} " + (f'"{job.name}"' if job.name else "(no name)")


def full_id(text: str | UUID) -> UUID | None:
    """Read a full id. None: it is something else. ValueError: it is nothing at all."""
    if isinstance(text, UUID):
        return text
    if not text.strip():
        raise ValueError(f"{text!r} is not a valid id or name")
    try:
        return UUID(text)
    except ValueError:
        return None


def _only(what: str, given: str, found: Sequence[T]) -> T:
    """Return the one with the strongest match."""
    meant = [one for one in found if one.match != ONLY_BEGINS]
    if not meant:
        known = next((one.name or one.key for one in found if isinstance(one, FoundJob)), None)
        nearest = "" if known is None else f" Did you mean {known!r}?"
        words = f"No {what} matches {given!r}.{nearest} Use an id, the last 6 or more digits of an id, a key or a name."
        raise _not_found(words, what=what)
    best = [one for one in meant if one.match == meant[0].match]
    if len(best) > 1:
        raise Ambiguous(given, best)
    return best[0]


def _not_found(detail: str, **members: str) -> NotFound:
    return NotFound(404, "Not Found", detail, members=members)
