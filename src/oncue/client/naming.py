"""Find the job, run or worker that is meant: by an id, the end or the beginning of one, a key or a name.

One rule for the clients and the command line. The server looks a text up (`GET /v1/lookup`), unless it is a full id.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar
from uuid import UUID

import msgspec

from oncue.client import dead_letters, fleet, runs
from oncue.client.asking import Asker, Exchange, ask
from oncue.client.call import following
from oncue.client.errors import Ambiguous, NotFound
from oncue.shapes.lookup import FoundJob, FoundName, FoundRun, FoundWorker, Lookup
from oncue.shapes.runs import DeadLetter

T = TypeVar("T", FoundJob, FoundRun, FoundWorker)

ONLY_BEGINS = "prefix"  # a match that helps to complete a name, and names no object
SHORT_ID = 8  # digits
MOST_PAGES = 50  # of dead letters, 200 each, among which one of a job is looked for
MOST_LETTERS = 20  # of a task: so many are counted, to say of how many the newest is meant


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
    """A run that a text means: by its id, as the newest run of `job`, or as the newest dead letter of `task`."""

    run_id: UUID
    job: FoundJob | None = None
    task: str | None = None
    letters: tuple[DeadLetter, ...] = ()
    """the open dead letters of the task, newest first, and not all of them if there are many"""


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
    given = str(text)
    found = yield from ask(fleet.lookup(given, kind="job,task"), asker.retry_policy)
    if (task := _task_meant(given, found)) is not None:
        raise _is_a_task(task, "job")
    return _only("job", given, found.jobs)


def find_worker(asker: Asker, text: str | UUID) -> Exchange[FoundWorker]:
    found = yield from ask(fleet.lookup(str(text), kind="worker"), asker.retry_policy)
    return _only("worker", str(text), found.workers)


def find_run(asker: Asker, text: str | UUID) -> Exchange[MeantRun]:
    """Find a run; of a job, its newest run."""
    meant = yield from _meant(asker, str(text))
    match meant:
        case MeantRun():
            return meant
        case FoundName():
            raise _is_a_task(meant, "run")
    newest = yield from _newest(asker, meant, None)
    if newest is None:
        raise _has_no("run yet", meant)
    return MeantRun(newest, meant)


def find_letter(asker: Asker, text: str | UUID, *, closed: bool = False) -> Exchange[MeantRun]:
    """Find a dead letter; of a job or task, its newest that is open, or with `closed` else its newest dead run."""
    meant = yield from _meant(asker, str(text))
    if isinstance(meant, MeantRun):
        return meant
    letters = yield from _letters(asker, meant)
    newest = letters[0].run_id if letters else None
    if newest is None and closed:
        newest = yield from _newest(asker, meant, "dead")
    if newest is None:
        raise _has_no("dead letter", meant)
    if isinstance(meant, FoundJob):
        return MeantRun(newest, meant)
    return MeantRun(newest, task=meant.name, letters=letters)


def _newest(asker: Asker, of: FoundJob | FoundName, status: str | None) -> Exchange[UUID | None]:
    page = yield from ask(runs.page(**_filter(of), status=status, limit=1), asker.retry_policy)
    return page.items[0].run_id if page.items else None


def _letters(asker: Asker, of: FoundJob | FoundName) -> Exchange[tuple[DeadLetter, ...]]:
    """The newest open dead letter of a job, the newest few of a task.

    A page looks at some of the user's letters only, so that it may be empty although more follow."""
    most = MOST_LETTERS if isinstance(of, FoundName) else 1
    call, found = dead_letters.page(**_filter(of), limit=most), list[DeadLetter]()
    for _ in range(MOST_PAGES):
        page = yield from ask(call, asker.retry_policy)
        found += page.items
        if len(found) >= most or page.next_page_token is None:
            return tuple(found[:most])
        call = following(call, page.next_page_token)
    if found:
        return tuple(found)
    option = " ".join(f"--{name.removesuffix('_id')} {value}" for name, value in _filter(of).items())
    raise _not_found(f"{_called(of)} has no dead letter among your newest; see `oncue dead list {option}`.")


def _filter(of: FoundJob | FoundName) -> dict[str, Any]:
    return {"task": of.name} if isinstance(of, FoundName) else {"job_id": of.job_id}


def _meant(asker: Asker, given: str) -> Exchange[MeantRun | FoundJob | FoundName]:
    """Find a run or a job, or if none is meant the task with this name."""
    found = yield from ask(fleet.lookup(given, kind="run,job,task"), asker.retry_policy)
    if found.runs:
        return MeantRun(_only("run", given, found.runs).run_id)
    return _task_meant(given, found) or _only("run", given, found.jobs)


def _task_meant(given: str, found: Lookup) -> FoundName | None:
    """Return the task with this name, unless a job is meant."""
    if any(job.match != ONLY_BEGINS for job in found.jobs):
        return None
    return next((task for task in found.tasks if task.name == given), None)


def _is_a_task(task: FoundName, what: str) -> NotFound:
    return _not_found(f"{task.name!r} is a task, not a {what}.", task=task.name)


def _has_no(what: str, of: FoundJob | FoundName) -> NotFound:
    return _not_found(f"{_called(of)} has no {what}.")


def _called(of: FoundJob | FoundName) -> str:
    if isinstance(of, FoundName):
        return f"Task {of.name}"
    return f"Job {str(of.job_id)[-SHORT_ID:]} " + (f'"{of.name}"' if of.name else "(no name)")


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
