"""Self-audit: how far it has come, and in words where stored rows are not as the definitions of jobs require.

Each function that judges is given rows that were read together, and returns what is wrong, or None if all is well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from itertools import islice
from uuid import UUID

import msgspec

from oncue.domain.ids import JobId, RunId, WorkerId
from oncue.domain.instants import MINUTE, NEVER, Duration, Instant, rfc3339, show_duration
from oncue.domain.job import Cursor, JobStatus, Spec, understand_spec
from oncue.domain.ledger import Entry
from oncue.domain.schedule import next_occurrence, occurrences, rules_of

TURN = "self-audit"
PASS_STEPS = 700  # so that a pass over all jobs takes about an hour
SMALLEST_PAGE, LARGEST_PAGE = 500, 5_000  # jobs


class Progress(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far the audit has come, stored as the position of its turn."""

    after: UUID | None = None  # the last job of the last step; None: a pass begins
    runs_after: UUID | None = None  # the same of what runs
    jobs: int = 0  # in this pass so far
    jobs_before: int = 0  # in the pass before
    passed_at: Instant | None = None  # when a pass was complete
    summed_at: Instant | None = None
    checked: dict[str, int] = {}  # how many objects, by check, ever

    @property
    def page(self) -> int:
        return min(max(self.jobs_before // PASS_STEPS, SMALLEST_PAGE), LARGEST_PAGE)


def read_progress(position: bytes) -> Progress:
    """Decode a position. One that cannot be read begins a new pass."""
    try:
        return msgspec.json.decode(position, type=Progress) if position else Progress()
    except msgspec.DecodeError:
        return Progress()


SETTLED = Duration(MINUTE)  # what is younger may still be under way
WINDOW = Duration(10 * MINUTE)  # occurrences in it are looked up
MOST_OCCURRENCES = 50  # of one job


class Check(StrEnum):
    CURSOR = "cursor"
    UNPLANNABLE = "unplannable"
    OCCURRENCE = "occurrence"
    LANE = "lane"
    ORPHAN = "orphan"
    EXPIRY = "expiry"
    FORGOTTEN_RUN = "forgotten_run"
    SUMS = "sums"


class AuditedCursor(msgspec.Struct, frozen=True):
    """A recurring job with its cursor, as they are stored together."""

    job_id: JobId
    status: JobStatus
    spec: bytes
    created_at: Instant
    updated_at: Instant
    cursor: Cursor


class LongRunning(msgspec.Struct, frozen=True):
    """A run that a registered worker holds."""

    run_id: RunId
    worker_id: WorkerId
    claimed_at: Instant
    cancel_at: Instant | None
    spec: bytes | None  # None: its definition is gone


def forgotten_problem(run: LongRunning, grace: Duration, now: Instant) -> str | None:
    """Say that a run is running although its worker must have stopped and settled it long ago.

    `grace` is what a worker may need after the timeout, or after a cancel: to stop the run and to store its result.
    """
    try:
        timeout = understand_spec(run.spec or b"").timeout
    except ValueError:  # a newer version wrote it, or it is gone: workers return such runs to the queue
        timeout = Duration(0)
    ends_by = run.claimed_at + timeout
    if run.cancel_at is not None and run.cancel_at < ends_by:
        why, ends_by = f"it was cancelled at {rfc3339(run.cancel_at)}", run.cancel_at
    else:
        why = f"its timeout is {show_duration(timeout)}"
    if now <= ends_by + grace:
        return None
    return f"runs since {rfc3339(run.claimed_at)} on worker {run.worker_id}, which is alive, but {why}"


def cursor_problem(job: AuditedCursor, now: Instant) -> tuple[Check, str] | None:
    """Compare a cursor with the job's schedule. A cursor that is too early is harmless, one that is too late skips."""
    next_at = job.cursor.next_at
    if job.status is not JobStatus.ACTIVE:
        return None if next_at == NEVER else (Check.CURSOR, f"the job is {job.status}, but {_at(next_at)} is planned")
    spec = _understood(job)
    if spec is None:  # a process of the version that wrote it plans it
        return (Check.UNPLANNABLE, "no scheduler can read its definition") if next_at < now - SETTLED else None
    if _follows_other_rules(spec, job.cursor):
        return None
    try:
        expected = _next(spec, job.cursor)
    except Exception as error:
        return Check.UNPLANNABLE, f"its next occurrence cannot be computed ({type(error).__name__})"
    if next_at <= expected:
        return None
    return Check.CURSOR, f"its next occurrence is stored as {_at(next_at)}, but its schedule says {_at(expected)}"


def occurrences_to_look_up(job: AuditedCursor, now: Instant) -> list[Instant]:
    """Return nominal instants that must be a run or in the occurrence history by now: at most MOST_OCCURRENCES.

    Instants before the last edit are left out: the definition they followed is not this one.
    """
    spec = _understood(job)
    if job.status is not JobStatus.ACTIVE or spec is None or _follows_other_rules(spec, job.cursor):
        return []
    last = min(job.cursor.floor, now - SETTLED)
    first = max(last - WINDOW, job.updated_at, job.created_at)
    return list(islice(occurrences(spec.schedule, Instant(first), Instant(last)), MOST_OCCURRENCES))


def unaccounted(instants: Iterable[Instant], history: Sequence[Entry]) -> tuple[Instant, ...]:
    """Return the instants that no entry of the occurrence history covers."""
    return tuple(at for at in instants if not any(entry.first <= at <= entry.last for entry in history))


def occurrence_problem(missing: Sequence[Instant]) -> str:
    more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
    return f"the occurrence of {_at(missing[0])}{more} is neither a run nor in the occurrence history"


def _understood(job: AuditedCursor) -> Spec | None:
    """None: a newer version wrote the definition."""
    try:
        return understand_spec(job.spec)
    except ValueError:
        return None


def _follows_other_rules(spec: Spec, cursor: Cursor) -> bool:
    """Whether the cursor follows time-zone rules of another version than ours: then we cannot judge it."""
    return cursor.rules != rules_of(spec.schedule)


def _next(spec: Spec, cursor: Cursor) -> Instant:
    most = spec.schedule.max_runs
    found = None if most is not None and cursor.planned >= most else next_occurrence(spec.schedule, cursor.floor)
    return NEVER if found is None else found


def _at(at: Instant) -> str:
    return "never" if at == NEVER else rfc3339(at)
