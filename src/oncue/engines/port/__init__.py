"""The contract between oncue and the database that keeps its state, written so that it alone suffices for a new engine.

**Data in, data out.** Verbs take and return the domain's frozen values. No SQL, cursor, session or vendor type crosses.
Verbs never read a clock: the caller passes `now`, the database's own time as the caller follows it.

**Guarded writes.** A verb that writes names its conditions. When one no longer holds, the verb writes nothing and
answers so: an empty list, False, None, a smaller set. *Zero rows means "you lost it"*: an answer, not an error.
Errors are about the database itself. `StoreUnavailable`: it cannot be reached or did not answer in time, and the
write may or may not have happened. Therefore **every verb may be repeated**; its docstring says what a repeat does.
`StoreRefused`: it answered, but cannot store what it was given; nothing of the call was written, and a repeat changes
nothing. A caller that writes batches then halves them (`refusals.apart`), so that one item does not block the others.

**One state at a time.** A run is waiting, running or final, in one place, moved by the statement that decides. An
engine that leaves the run in place and marks it (DynamoDB) satisfies this as well: the port says *settle*, never
*archive*. Final is final: no verb changes a final run.

**Fences.** `claim` raises a run's token. `settle`, `hand_back` and `save` match on (run, token, worker); a worker that
was declared dead can neither claim nor settle, even before it has noticed.

**Lanes** are tended by the verb that adds or frees a member, in the same transaction: `create`, `apply`, `plan`,
`settle`, `hand_back`, `cancel`, `withdraw`, `expire`, `recover_runs`. A lane admits its first `width` members by
(wanted, run_id), after those that run or are between two attempts. The claim does not know lanes: it refuses every
held run.

**Batches may be applied in part.** An engine without multi-row conditional writes applies them one by one. Only
`create(whole=True)` is all or nothing, up to `Capabilities.atomic_batch`; `plan` and `apply` are atomic per job.

**Hints** are only hints: any may be lost, doubled or late, and everything still works by polling.

`state.py` has the verbs that change state, the largest part. `history.py` (one run, and lists), `ahead.py` (what is to
come), `searching.py` (what people name by a part of it), `accounts.py` (users, keys and sessions, the audit log,
idempotency keys), `declaring.py` (sets of declared jobs), `members.py` (which processes run), `objects.py` (what is in
object storage), `outbox.py` (what applications enqueue in transactions of their own), `auditing.py` (what the
self-audit reads and records), `notices.py` (whom users want told), `archiving.py` (what goes into the archive),
`errors.py` (failures of one kind), `bulks.py` (acts on many objects), `forgetting.py` (users) and `maintenance.py` are
separate: none of them decides what runs.

**References.** A payload, a result or a part of a log that begins with the byte 1 is a reference to an object in
storage (`domain.reference`), or a note on a log (`domain.run_log`). Engines store it like any other bytes; only
`Objects.look` and sums of sizes read it.
"""

from __future__ import annotations

from typing import Protocol

from oncue.domain.diagnosis import Diagnosis
from oncue.domain.explain import RunDiagnosis
from oncue.domain.instants import Duration, Instant
from oncue.domain.quota import Quota, Usage
from oncue.engines.account_values import AuditFilter, Forgotten, Key, Revoked, Role, Session, User
from oncue.engines.audited import AuditedCursor, Finding, LongHeld, LongRunning, Orphan, Sums, Unexpired
from oncue.engines.gauges import ClassGauge, Gauges, QueueGauge, Turn
from oncue.engines.listed import Counts, EndedRun, JobName, JobQuery, JobRow, JobVersion, LastAndNext, RunQuery
from oncue.engines.port.accounts import (
    AUDIT_LOOKED_AT,
    EVERY_ENTRY,
    JOBS_COUNTED,
    KEYS_COUNTED,
    Accounts,
    Audit,
    Idempotency,
    Sessions,
)
from oncue.engines.port.ahead import Ahead
from oncue.engines.port.archiving import Archiving
from oncue.engines.port.auditing import Auditing
from oncue.engines.port.bulks import BULKS_STAY, Bulks
from oncue.engines.port.declaring import MOST_KEYS, MOST_SETS, Declaring
from oncue.engines.port.errors import FOLDED_AT_ONCE, LETTERS_COUNTED, Errors
from oncue.engines.port.forgetting import Forgetting
from oncue.engines.port.history import History, Lists
from oncue.engines.port.maintenance import MEMBERS_STAY, ROLLED_UP_AT_ONCE, Maintenance
from oncue.engines.port.members import Members
from oncue.engines.port.notices import Notices
from oncue.engines.port.objects import LOOKED_AT_ONCE, SELDOM, UNUSED_FOR, Objects
from oncue.engines.port.outbox import OUTBOX_COUNTED, Outbox
from oncue.engines.port.searching import Search
from oncue.engines.port.signals import Signals
from oncue.engines.port.standstill import NoStandstill, Standstill
from oncue.engines.port.state import Fleet, Jobs, Planning, Running
from oncue.engines.values import (
    EVERYBODY,
    ArchiveRow,
    AuditEntry,
    Beat,
    Cancelled,
    CancelRequest,
    Capabilities,
    Count,
    Counter,
    Created,
    Creation,
    CursorRow,
    DeadRuns,
    Dropped,
    DueCounts,
    EngineState,
    Expired,
    FairRuns,
    Generation,
    Hint,
    IdempotencyKey,
    KeyedJob,
    KeyHolder,
    KnownObject,
    LogPart,
    Looked,
    Measure,
    Member,
    NewJob,
    OpenLetters,
    Page,
    Permitted,
    Planned,
    Point,
    Reserved,
    SetStamp,
    StampGuard,
    StoredObject,
    Target,
    Task,
    Topic,
    Worker,
    WorkerStatus,
)

__all__ = [
    "AUDIT_LOOKED_AT",
    "BULKS_STAY",
    "EVERYBODY",
    "EVERY_ENTRY",
    "FOLDED_AT_ONCE",
    "JOBS_COUNTED",
    "KEYS_COUNTED",
    "LETTERS_COUNTED",
    "LOOKED_AT_ONCE",
    "MEMBERS_STAY",
    "MOST_KEYS",
    "MOST_SETS",
    "OUTBOX_COUNTED",
    "ROLLED_UP_AT_ONCE",
    "SELDOM",
    "UNUSED_FOR",
    "Accounts",
    "Ahead",
    "ArchiveRow",
    "Archiving",
    "Audit",
    "AuditEntry",
    "AuditFilter",
    "AuditedCursor",
    "Auditing",
    "Beat",
    "Bulks",
    "CancelRequest",
    "Cancelled",
    "Capabilities",
    "ClassGauge",
    "Count",
    "Counter",
    "Counts",
    "Created",
    "Creation",
    "CursorRow",
    "DeadRuns",
    "Declaring",
    "Dropped",
    "DueCounts",
    "EndedRun",
    "Engine",
    "EngineState",
    "Errors",
    "Expired",
    "FairRuns",
    "Finding",
    "Fleet",
    "Forgetting",
    "Forgotten",
    "Gauges",
    "Generation",
    "Hint",
    "History",
    "Idempotency",
    "IdempotencyKey",
    "JobName",
    "JobQuery",
    "JobRow",
    "JobVersion",
    "Jobs",
    "Key",
    "KeyHolder",
    "KeyedJob",
    "KnownObject",
    "LastAndNext",
    "Lists",
    "LogPart",
    "LongHeld",
    "LongRunning",
    "Looked",
    "Maintenance",
    "Measure",
    "Member",
    "Members",
    "NewJob",
    "NoStandstill",
    "Notices",
    "Objects",
    "OpenLetters",
    "Orphan",
    "Outbox",
    "Page",
    "Permitted",
    "Planned",
    "Planning",
    "Point",
    "QueueGauge",
    "Quota",
    "Reserved",
    "Revoked",
    "Role",
    "RunDiagnosis",
    "RunQuery",
    "Running",
    "Search",
    "Session",
    "Sessions",
    "SetStamp",
    "Signals",
    "StampGuard",
    "Standstill",
    "StoredObject",
    "Sums",
    "Target",
    "Task",
    "Topic",
    "Turn",
    "Unexpired",
    "Usage",
    "User",
    "Worker",
    "WorkerStatus",
]


class Engine(Protocol):
    """A database with every verb oncue needs. `engines.open` opens one from a URL and brings its schema up to date."""

    name: str
    schema: int  # the newest migration that this code knows
    capabilities: Capabilities
    jobs: Jobs
    planning: Planning
    running: Running
    fleet: Fleet
    members: Members
    declaring: Declaring
    objects: Objects
    outbox: Outbox
    notices: Notices
    signals: Signals
    history: History
    lists: Lists
    search: Search
    ahead: Ahead
    accounts: Accounts
    sessions: Sessions
    audit: Audit
    auditing: Auditing
    archiving: Archiving
    errors: Errors
    bulks: Bulks
    forgetting: Forgetting
    idempotency: Idempotency
    maintenance: Maintenance

    @property
    def standstill(self) -> Standstill:
        """Return what tells whether writes come back."""
        ...

    async def now(self) -> Instant:
        """Return the database's own time."""
        ...

    async def ping(self, within: Duration) -> None:
        """Check that the database accepts writes. StoreUnavailable: it did not say so within this time.

        A ping does not queue behind this process's own calls: that these are slow does not mean it is unavailable.
        """
        ...

    async def probe(self) -> None:
        """Return once a small write was stored durably where it will be found again. StoreUnavailable: it was not.

        A probe may queue behind this process's own calls: callers use it, about once a second, to decide whether to
        send more of them. Callers may share one, which goes on when they give up.
        """
        ...

    def state(self) -> EngineState:
        """Return how it does now, without asking the database."""
        ...

    async def diagnose(self) -> list[Diagnosis]:
        """Look for what can be wrong with this kind of database itself: settings, rights, space. Changes nothing."""
        ...

    async def close(self) -> None: ...
