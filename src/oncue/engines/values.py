"""The values that cross the port besides the domain's own: requests, answers, and hints between processes."""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import Generic, TypeVar
from uuid import UUID

import msgspec

from oncue.domain.ids import ClassId, JobId, KeyId, RunId, UserNumber, WorkerId
from oncue.domain.instants import Duration, Instant
from oncue.domain.job import Cursor, Job, Spec
from oncue.domain.ledger import Entry
from oncue.domain.quota import Quota, Usage
from oncue.domain.reference import Kind
from oncue.domain.run import NewRun, Peeked, RunView, State

T = TypeVar("T")

EVERYBODY = UserNumber(0)  # no user has this number


class Capabilities(msgspec.Struct, frozen=True):
    """The declared differences between engines: tests and callers ask here, never for an engine's name."""

    atomic_batch: int = 10_000  # most jobs that one `create(whole=True)` stores all or nothing
    outbox: bool = False  # applications can enqueue in transactions of their own
    hints: bool = True  # they arrive; otherwise work is found by polling alone
    exact_counters: bool = True  # counters change in the same write as the rows that they count


class EngineState(msgspec.Struct, frozen=True):
    """How an engine does in this process, for its metrics."""

    pools: dict[str, tuple[int, int]] = {}  # of connections, by name: how many are open, and how many in use
    hints_failed: int = 0  # that could not be sent, since the start
    reconnected: int = 0  # how often a listener's connection broke, since the start


class Page(msgspec.Struct, Generic[T], frozen=True):
    """Some rows and where to continue. A filtered page may be short, even empty, while `next` says there is more.

    Such a page has read as many rows as one page may. `looked_to`: the time of the last of them, by which the list is
    ordered; of a live job or run in the order of creation, when it was created. None: there is no such order.
    """

    items: tuple[T, ...]
    next: str | None = None
    looked_to: Instant | None = None


class IdempotencyKey(msgspec.Struct, frozen=True):
    """A hashed idempotency key, with the hash of the request body."""

    key_hash: bytes
    body_hash: bytes


class AuditEntry(msgspec.Struct, frozen=True):
    """An entry of the audit log: which user did what, when, from where."""

    at: Instant
    uid: UserNumber | None
    key_id: KeyId | None
    action: str
    object_id: UUID | None = None
    detail: bytes | None = None
    address: str | None = None


class ArchiveRow(msgspec.Struct, frozen=True):
    """A row to archive: of a user (EVERYBODY: of none), at the time that decides in which piece it is."""

    uid: UserNumber
    at: Instant
    of: RunView | Entry | AuditEntry


class NewJob(msgspec.Struct, frozen=True):
    """A job to store: a one-shot with its only run (whose id is the job's), or a recurring one with its cursor."""

    job: Job
    class_id: ClassId  # 0, in its run as well: unknown; the engine finds or creates the class with the job
    run: NewRun | None = None
    cursor: Cursor | None = None
    idempotency_key: IdempotencyKey | None = None
    applied: bool = False  # declared, not created: its definition is remembered as long as its key is
    notices: tuple[NewRun, ...] = ()  # of being late, stored with its run; the engine finds their class
    audit_entry: AuditEntry | None = None  # written together with the job, if it is stored
    quota: Quota | None = None  # None: not counted; a user who is counted at all has a quota with every job


class Created(Enum):
    NEW = "stored"
    REPEATED = "the same key and body were sent before: this is the job they created"
    KEY_REUSED = "the key was sent before with another body: nothing stored"
    KEY_TAKEN = "this active or paused job of the user has the stable key: nothing stored"
    OVER_QUOTA = "the user's quota is used up: nothing stored"


class KeyHolder(msgspec.Struct, frozen=True):
    """The job that has a stable key, or had it last. `definition`: of a one-shot, as `definition_of` returns it."""

    job_id: JobId
    definition: bytes | None = None


class KeyedJob(msgspec.Struct, frozen=True):
    """A `KeyHolder`, and the job itself if it is a recurring one that is not forgotten."""

    holder: KeyHolder
    job: Job | None = None


class SetStamp(msgspec.Struct, frozen=True):
    """Which declaration of a set was applied: a number that later ones do not fall below, and a digest of its jobs."""

    stamp: int
    digest: bytes


class StampGuard(msgspec.Struct, frozen=True):
    """A condition of a write: this is the stamp of the user's set."""

    uid: UserNumber
    name: str
    stamp: SetStamp


class Creation(msgspec.Struct, frozen=True):
    outcome: Created
    job_id: JobId
    used: Usage | None = None  # OVER_QUOTA: what the user had; jobs are counted up to one beyond the quota
    class_id: ClassId = ClassId(0)  # NEW: the number of its class, if the job came without one


class Reserved(msgspec.Struct, frozen=True):
    """The state of an idempotency key. `made` is the id from which the ids of all that the request creates follow."""

    outcome: Created  # NEW, REPEATED or KEY_REUSED
    made: UUID
    answer: bytes | None = None  # to the first request; None: not yet, or it never got an answer


class Cancelled(msgspec.Struct, frozen=True):
    """`stopped` runs will never start (again); `told` runs are running: their workers get cancel requests."""

    stopped: tuple[RunId, ...] = ()
    told: tuple[tuple[RunId, WorkerId], ...] = ()
    final: State | None = None  # the run had ended before, in this state
    job: Job | None = None  # as this cancel left it, if a job was cancelled


class FairRuns(msgspec.Struct, frozen=True):
    """Runs of one user after the other. `reached`: the search stopped at this user; too many had nothing due."""

    runs: list[Peeked]
    reached: UserNumber | None = None


class Permitted(msgspec.Struct, frozen=True):
    """The result of one pass that grants starts. `runs` at the limit: call again at once."""

    runs: int = 0
    first_due: Instant | None = None  # of the granted runs: worth a hint to the workers
    next_at: Instant | None = None  # when the next run that waits for a rate may be granted a start


class Planned(msgspec.Struct, frozen=True):
    """The result of one planning pass. `jobs` at the limit: call again at once."""

    jobs: int = 0
    runs: int = 0
    first_due: Instant | None = None  # of the new runs: worth a hint to the workers
    next_at: Instant | None = None  # the nearest instant still to be planned, of all jobs that may be taken
    newer_rules: str | None = None  # time-zone rules of another scheduler: it alone plans jobs with a zone
    late: int = 0  # of the new runs: planned after the instant of their occurrence
    put_off: int = 0  # jobs that could not be planned, until a later pass


class Expired(msgspec.Struct, frozen=True):
    """A run that ended because nothing had started it in time."""

    run_id: RunId
    job_id: JobId
    task: str
    wanted: Instant


class WorkerStatus(StrEnum):
    ACTIVE = "active"
    DRAINING = "draining"  # it takes no new runs
    NO_HEARTBEAT = "no_heartbeat"  # for longer than its lease: its runs soon start elsewhere


class Worker(msgspec.Struct, frozen=True):
    """A process that runs tasks. Its id is random per start: a restart under the same name is another worker."""

    worker_id: WorkerId
    name: str
    host: str
    lease: Duration
    started_at: Instant
    beat_at: Instant
    draining: bool = False  # takes no new runs: it stops, was replaced, or is drained on request
    classes: tuple[ClassId, ...] = ()
    info: bytes | None = None  # what it offers: `domain.placement.read_offer`
    load: bytes | None = None  # how busy it was at its last heartbeat: `domain.load.read_load`
    drain_at: Instant | None = None  # since when it is drained on request; then it is draining, too

    def status(self, now: Instant) -> WorkerStatus:
        if self.beat_at + self.lease < now:
            return WorkerStatus.NO_HEARTBEAT
        return WorkerStatus.DRAINING if self.draining else WorkerStatus.ACTIVE


class OpenLetters(msgspec.Struct, frozen=True):
    """Open dead letters: when the oldest one died, and how many a user has, of those with the most."""

    oldest: Instant | None
    users: dict[UserNumber, int]


class CursorRow(msgspec.Struct, frozen=True):
    """A recurring job and how far it is planned."""

    job_id: JobId
    uid: UserNumber
    class_id: ClassId
    spec: Spec
    next_at: Instant  # its first occurrence that is not planned
    planned: int  # runs that count towards max_runs


class DueCounts(msgspec.Struct, frozen=True):
    """Runs of a class that are due in each step. `reached`: there may be more from then on; None: all were counted."""

    counts: dict[Instant, int]
    reached: Instant | None = None


class DeadRuns(msgspec.Struct, frozen=True):
    """Open dead letters of one job, of those that were looked at."""

    job_id: JobId
    n: int
    first: Instant  # when these died
    last: Instant


class Member(msgspec.Struct, frozen=True):
    """A process of oncue, of any role: api, scheduler, up, or worker (its supervisor). Its id is random per start."""

    member_id: UUID
    role: str
    version: str
    schema: int  # the newest migration that it knows
    host: str
    started_at: Instant
    beat_at: Instant


class StoredObject(msgspec.Struct, frozen=True):
    """An object in storage. `owner` is the job of a payload, the run of a result or of a part of a log."""

    key: str
    uid: UserNumber
    owner: UUID
    kind: Kind
    size: int


class KnownObject(msgspec.Struct, frozen=True):
    """What the database knows of an object in storage. `gone_at`: when to look whether anything refers to it."""

    key: str
    size: int
    made_at: Instant
    gone_at: Instant


class Looked(msgspec.Struct, frozen=True):
    """The result of one look at objects. `seen` at the limit: there may be more."""

    seen: int
    unused: tuple[str, ...]  # the keys of those that nothing refers to


class LogPart(msgspec.Struct, frozen=True):
    """A part of a run's log. `text` may be a reference to an object, whose bytes are compressed text."""

    number: int
    text: bytes
    at: Instant


class CancelRequest(msgspec.Struct, frozen=True):
    """A request to a worker: stop this run."""

    run_id: RunId


class Beat(msgspec.Struct, frozen=True):
    """The answer to a heartbeat. With `place` of `peers`, workers share a burst without talking to each other.

    Those that said they take the same classes share the sweeps for missed runs: `alike` of them, this one included,
    `alike_before` of them before it. One that was silent for half of its lease does not count.
    """

    place: int
    peers: int
    drain_at: Instant | None = None  # since when the worker is drained on request: it takes no new runs
    alike_before: int = 0
    alike: int = 1


class Task(msgspec.Struct, frozen=True):
    """A task as its workers registered it; the registration outlives them."""

    name: str
    schema: bytes
    defaults: bytes = b"{}"
    roles: tuple[str, ...] = ("admin", "member")
    announced_at: Instant = Instant(0)


class Target(msgspec.Struct, frozen=True):
    """Where notices go, and how many in a row did not arrive. Muted: none is sent."""

    target: str  # `domain.notify.Entry.target`
    shown: str
    dead: int
    muted_at: Instant | None = None


class Dropped(msgspec.Struct, frozen=True):
    """How many notices of a user were dropped, ever, and how many of them digests have reported."""

    total: int = 0
    reported: int = 0


class Generation(msgspec.Struct, frozen=True):
    """How often the derived secret of a webhook was replaced, and when last; 0: never."""

    number: int = 0
    rotated_at: Instant | None = None


class Count(StrEnum):
    """What is counted. Open runs are CREATED minus all that ended or were withdrawn.

    A failed attempt that is retried counts as RETRIED; one whose worker was lost counts as LOST instead.
    Open dead letters are DEAD minus REQUEUED and DISCARDED: by a user, by a purge of their job, or by retention.
    The last three are occurrences that made no run, as many as the ledger says.
    """

    __hash__ = str.__hash__  # an enum's own hash is in Python, and these are keys for every run

    CREATED = "created"
    SUCCEEDED = "succeeded"
    DEAD = "dead"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"
    RETRIED = "retried"
    LOST = "lost"
    REQUEUED = "requeued"
    DISCARDED = "discarded"
    SKIPPED = "skipped"
    COALESCED = "coalesced"
    MISSED = "missed"


class Counter(msgspec.Struct, frozen=True):
    uid: UserNumber  # EVERYBODY: all users
    class_id: ClassId
    what: Count
    n: int


class Measure(StrEnum):
    """What is measured of attempts, as histograms with the edges of `domain.buckets`."""

    LAG = "lag"  # from when the run could start to when it did
    RUN = "run"  # from there to its end


class Point(msgspec.Struct, frozen=True):
    """What was counted or measured from `at` on, for one step. `counts`: of each bucket; of a count, the number."""

    at: Instant
    counts: tuple[int, ...]


class Topic(StrEnum):
    RUNS = "runs"  # a run is due at `due`: workers look from there on, or take the `runs` that the hint names
    JOBS = "jobs"  # a job is to be planned at `due`: schedulers look
    CANCELS = "cancel_requests"  # the worker `target` has cancel requests
    CHANGED = "changed"  # a change that watchers may show, of the user whose number `target` begins with


class Hint(msgspec.Struct, frozen=True, omit_defaults=True):
    """Nothing follows from it but a look or a claim: it may be late, doubled, lost or wrong.

    RUNS and CANCELS with a `target` are for the worker with that id, others for all who follow the topic.
    """

    topic: Topic
    due: Instant | None = None
    target: str | None = None
    runs: tuple[Peeked, ...] = ()  # of RUNS: all that are due, and nothing holds them. Empty: look
    classes: tuple[ClassId, ...] = ()  # of RUNS without names: those to look for. Empty: any
