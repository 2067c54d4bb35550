"""What crosses the port beside the domain's own values: asked for, answered, or said between processes."""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import Generic, TypeVar
from uuid import UUID

import msgspec

from oncue.domain.ids import ClassId, JobId, KeyId, RunId, UserNumber, WorkerId
from oncue.domain.instants import Duration, Instant
from oncue.domain.job import Cursor, Job, JobStatus
from oncue.domain.quota import Quota, Usage
from oncue.domain.run import NewRun, Peeked, RunView, State

T = TypeVar("T")


class Capabilities(msgspec.Struct, frozen=True):
    """What differs between engines, declared: tests and callers ask here, never for an engine's name."""

    atomic_batch: int = 10_000  # most jobs one `create(whole=True)` stores all or nothing


class Page(msgspec.Struct, Generic[T], frozen=True):
    """Some rows and where to go on. A filtered page may be short, even empty, while `next` says there is more."""

    items: tuple[T, ...]
    next: str | None = None


class IdempotencyKey(msgspec.Struct, frozen=True):
    """An idempotency key, hashed, with the hash of the body it came with."""

    key_hash: bytes
    body_hash: bytes


class AuditEntry(msgspec.Struct, frozen=True):
    """A line of the audit log: who did what, when, from where."""

    at: Instant
    uid: UserNumber | None
    key_id: KeyId | None
    action: str
    object_id: UUID | None = None
    detail: bytes | None = None
    address: str | None = None


class NewJob(msgspec.Struct, frozen=True):
    """A job to store: a one-shot with its only run (whose id is the job's), or a recurring one with its cursor."""

    job: Job
    class_id: ClassId  # 0, in its run as well: not known; the class is found or made with the job
    run: NewRun | None = None
    cursor: Cursor | None = None
    idempotency_key: IdempotencyKey | None = None
    applied: bool = False  # it is to be there, not to be made: what it was to be is known as long as its key is
    audit_entry: AuditEntry | None = None  # the line of the audit log that goes with it, if it is stored
    quota: Quota | None = None  # None: nobody counts; a user of whom anything is counted has one with every job


class Created(Enum):
    NEW = "stored"
    REPEATED = "this key and body came before: here is the job it made"
    KEY_REUSED = "this key came before with another body: nothing stored"
    KEY_TAKEN = "this job of the user's has the stable key and has not ended: nothing stored"
    OVER_QUOTA = "the user has too much already: nothing stored"


class KeyHolder(msgspec.Struct, frozen=True):
    """Who has a stable key, or had it last. `definition`: what a one-shot is or was, as `definition_of` says it."""

    job_id: JobId
    definition: bytes | None = None


class Creation(msgspec.Struct, frozen=True):
    outcome: Created
    job_id: JobId
    used: Usage | None = None  # OVER_QUOTA: what the user had; of jobs no more are counted than one beyond the quota
    class_id: ClassId = ClassId(0)  # NEW: the number of its class, if the job came without


class Reserved(msgspec.Struct, frozen=True):
    """What an idempotency key stands for. `made` is the id that whatever the request makes follows from."""

    outcome: Created  # NEW, REPEATED or KEY_REUSED
    made: UUID
    answer: bytes | None = None  # what the first was told; None: not yet, or it never got so far


class JobQuery(msgspec.Struct, frozen=True):
    """`uid` None: any user's (for administrators). Newest first; with a window [next_from, next_until) by next run."""

    uid: UserNumber | None = None
    status: JobStatus | None = None
    task: str | None = None
    name: str | None = None
    tag: str | None = None
    queue: str | None = None
    next_from: Instant | None = None
    next_until: Instant | None = None
    limit: int = 100
    after: str | None = None


class JobRow(msgspec.Struct, frozen=True):
    job: Job
    next_at: Instant | None


class LastAndNext(msgspec.Struct, frozen=True):
    """A job's runs on either side of now: the last that was tried or ended, and when the first is wanted that waits.

    Of those that wait, only what its schedule asked for counts, and the run of a one-shot.
    """

    last: RunView | None = None
    next_at: Instant | None = None


class RunQuery(msgspec.Struct, frozen=True):
    """Live runs first, then ended ones, newest end first. The window is on `wanted`: [wanted_from, wanted_until)."""

    uid: UserNumber | None = None
    job_id: JobId | None = None
    states: frozenset[State] | None = None
    task: str | None = None
    queue: str | None = None
    wanted_from: Instant | None = None
    wanted_until: Instant | None = None
    limit: int = 100
    after: str | None = None


class Cancelled(msgspec.Struct, frozen=True):
    """`stopped` will never start (again); `told` are running: their workers find it in their mail."""

    stopped: tuple[RunId, ...] = ()
    told: tuple[tuple[RunId, WorkerId], ...] = ()
    final: State | None = None  # it had ended before, like this


class FairRuns(msgspec.Struct, frozen=True):
    """Runs of one user after the other. `reached`: only so far was looked, because too many have nothing due."""

    runs: list[Peeked]
    reached: UserNumber | None = None


class Permitted(msgspec.Struct, frozen=True):
    """What one pass of granting starts did. `runs` at the limit: come back at once."""

    runs: int = 0
    first_due: Instant | None = None  # of those granted: worth a hint to the workers
    next_at: Instant | None = None  # when the next of those that still wait for a rate may be granted


class Planned(msgspec.Struct, frozen=True):
    """What one pass did. `jobs` at the limit: come back at once."""

    jobs: int = 0
    runs: int = 0
    first_due: Instant | None = None  # of the runs made: worth a hint to the workers
    next_at: Instant | None = None  # the nearest instant still to be planned, of all jobs that may be taken
    newer_rules: str | None = None  # of time zones, that another scheduler goes by: jobs with a zone are left to it


class Worker(msgspec.Struct, frozen=True):
    """A process that runs tasks. Its id is random per start: a restart under the same name is somebody else."""

    worker_id: WorkerId
    name: str
    host: str
    lease: Duration
    started_at: Instant
    beat_at: Instant
    draining: bool = False
    classes: tuple[ClassId, ...] = ()
    info: bytes | None = None


class CancelRequest(msgspec.Struct, frozen=True):
    """A message in a worker's mailbox: stop this run."""

    run_id: RunId


class Beat(msgspec.Struct, frozen=True):
    """The answer to a beat. `place` of `peers` lets workers share out a burst without talking to each other."""

    place: int
    peers: int


class Task(msgspec.Struct, frozen=True):
    """A task as its workers announce it; the announcement outlives them."""

    name: str
    schema: bytes
    defaults: bytes = b"{}"
    roles: tuple[str, ...] = ("admin", "member")
    announced_at: Instant = Instant(0)


class Role(StrEnum):
    ADMIN = "admin"
    MEMBER = "member"
    VIEWER = "viewer"


class Key(msgspec.Struct, frozen=True):
    """An API key. Only the hash of the secret is ever stored."""

    key_id: KeyId
    key_hash: bytes
    uid: UserNumber
    user_id: str
    role: Role
    created_at: Instant
    expires_at: Instant | None = None
    revoked_at: Instant | None = None


class Revoked(Enum):
    DONE = "good for nothing from then on, or since it was revoked before"
    UNKNOWN = "there is no such key"
    LAST_ADMIN = "the last key of an administrator that works: nothing was done"


class Count(StrEnum):
    """What is counted. Open runs are CREATED less all that ended or was withdrawn.

    An attempt that failed and is tried again counts as RETRIED; one whose worker was lost counts as LOST instead.
    """

    __hash__ = str.__hash__  # an enum's own is in Python, and these are keys for every run

    CREATED = "created"
    SUCCEEDED = "succeeded"
    DEAD = "dead"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"
    RETRIED = "retried"
    LOST = "lost"


class Counter(msgspec.Struct, frozen=True):
    uid: UserNumber
    class_id: ClassId
    what: Count
    n: int


class Topic(StrEnum):
    RUNS = "runs"  # something is due at `due`: workers look from there on
    JOBS = "jobs"  # a job is to be planned at `due`: schedulers look
    MAIL = "cancel_requests"  # the worker `target` has mail
    CHANGED = "changed"  # something a watcher may want to show changed, of the user whose number `target` begins with


class Hint(msgspec.Struct, frozen=True):
    topic: Topic
    due: Instant | None = None
    target: str | None = None
