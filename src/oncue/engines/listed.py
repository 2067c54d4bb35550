"""What lists of jobs and runs are asked for, and what they answer."""

from __future__ import annotations

import msgspec

from oncue.domain.ids import JobId, RunId, UserNumber, WorkerId
from oncue.domain.instants import Instant
from oncue.domain.job import Job, JobStatus, Spec
from oncue.domain.run import RunView, State, Status, Trigger


class JobQuery(msgspec.Struct, frozen=True):
    """A filter. `uid` None: all users (administrators). Newest first; with [next_from, next_until) by next run.

    With `name_prefix`, by name as long as jobs have not ended; not together with a name, a tag or a window.
    """

    uid: UserNumber | None = None
    statuses: frozenset[JobStatus] | None = None
    task: str | None = None
    name: str | None = None
    name_prefix: str | None = None
    tag: str | None = None
    queue: str | None = None
    next_from: Instant | None = None
    next_until: Instant | None = None
    limit: int = 100
    after: str | None = None


class JobRow(msgspec.Struct, frozen=True):
    job: Job
    next_at: Instant | None


class JobName(msgspec.Struct, frozen=True):
    """What people call a job: its name, and its stable key."""

    name: str | None = None
    key: str | None = None


class EndedRun(msgspec.Struct, frozen=True):
    """How a run ended, without what it said. `first_start`: of its first attempt, if that is known."""

    run_id: RunId
    state: State
    wanted: Instant
    nominal: Instant | None
    started_at: Instant | None  # of the last attempt
    ended_at: Instant
    first_start: Instant | None


class Counts(msgspec.Struct, frozen=True):
    """How many jobs and runs there are in each status, and open dead letters: each up to a limit.

    Runs are looked at up to the limit: of those that have not ended, and of those that ended last. `live_all` and
    `ended_all` say whether that was all of them.
    """

    jobs: dict[JobStatus, int]
    runs: dict[Status, int]
    dead_letters: int
    live_all: bool
    ended_all: bool


class JobVersion(msgspec.Struct, frozen=True):
    """A definition that an edit superseded. `until`: when."""

    version: int
    spec: Spec
    payload: bytes | None
    until: Instant


class LastAndNext(msgspec.Struct, frozen=True):
    """A job's last run that was tried or has ended, and when its first waiting run is wanted.

    Of the waiting runs only those of its schedule count, and the run of a one-shot.
    """

    last: RunView | None = None
    next_at: Instant | None = None


class RunQuery(msgspec.Struct, frozen=True):
    """Live runs first, then ended ones, newest end first. Windows: of `wanted`, [wanted_from, wanted_until); of ends,
    [ended_from, ended_until), which leaves out runs that have not ended. `error_type`: as `tried.error_type_of` has it.
    """

    uid: UserNumber | None = None
    job_id: JobId | None = None
    states: frozenset[State] | None = None
    task: str | None = None
    queue: str | None = None
    wanted_from: Instant | None = None
    wanted_until: Instant | None = None
    ended_from: Instant | None = None
    ended_until: Instant | None = None
    triggers: frozenset[Trigger] | None = None
    worker_id: WorkerId | None = None
    error_type: str | None = None
    limit: int = 100
    after: str | None = None
