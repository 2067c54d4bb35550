"""The contract between oncue and whatever keeps its state. Prose first: a new engine's author can follow it alone.

**Data in, data out.** Verbs take and return the domain's frozen values. No SQL, cursor, session or vendor type crosses.
Verbs never read a clock: whoever calls passes `now`, the store's own time as the caller follows it.

**Guarded writes.** A verb that writes names what must still be true. When it no longer is, nothing is written and the
answer says so: an empty list, False, None, a smaller set. *Zero rows means "you lost it"*: an answer, not an error.
Errors are for the store itself: `StoreUnavailable` when it cannot be reached or did not answer in time, and then the
write may or may not have happened. Therefore **every verb may be repeated**; its docstring says what a repeat does.
`StoreRefused` when it is there and cannot keep what it was given: nothing of the call was written, and a repeat would
change nothing. Who writes batches halves them then (`refusals.apart`), so that one item does not keep the others back.

**One state at a time.** A run is waiting, running or final, in one place, moved by the statement that decides. An
engine that keeps the run where it is and marks it (DynamoDB) satisfies this as well: the port says *settle*, never
*archive*. Final is final: no verb changes a final run.

**Fences.** `claim` raises a run's token. `settle`, `hand_back` and `save` match on (run, token, worker); a worker that
was buried can claim nothing and settle nothing, even before it has noticed.

**Lanes** are tended by the verb that adds or frees a member, in the same transaction: `create`, `apply`, `plan`,
`settle`, `hand_back`, `cancel`, `withdraw`, `expire`, `recover_runs`. A lane admits its first `width` members by
(wanted, run_id), those between two attempts and those running first. The claim knows nothing of lanes: it refuses
whatever is held.

**Batches may be answered in part.** An engine without multi-row conditional writes applies them one by one. Only
`create(whole=True)` is all or nothing, up to `Capabilities.atomic_batch`; `plan` and `apply` are atomic per job.

**Hints** are only hints: any may be lost, doubled or late, and everything still works by polling.

`state.py` has the moves of state, and they are most of the work. `history.py` (one run, and lists), `accounts.py`
(users and keys, the audit log, idempotency keys) and `maintenance.py` stand apart: none of them decides what runs.
"""

from __future__ import annotations

from typing import Protocol

from oncue.domain.explain import RunDiagnosis
from oncue.domain.instants import Duration, Instant
from oncue.domain.quota import Quota, Usage
from oncue.engines.port.accounts import Accounts, Audit, Idempotency
from oncue.engines.port.history import History, Lists
from oncue.engines.port.maintenance import ROLLED_UP_AT_ONCE, Maintenance
from oncue.engines.port.signals import Signals
from oncue.engines.port.state import Fleet, Jobs, Planning, Running
from oncue.engines.values import (
    AuditEntry,
    Beat,
    Cancelled,
    CancelRequest,
    Capabilities,
    Count,
    Counter,
    Created,
    Creation,
    FairRuns,
    Hint,
    IdempotencyKey,
    JobQuery,
    JobRow,
    Key,
    KeyHolder,
    LastAndNext,
    NewJob,
    Page,
    Permitted,
    Planned,
    Reserved,
    Revoked,
    Role,
    RunQuery,
    Task,
    Topic,
    Worker,
)

__all__ = [
    "ROLLED_UP_AT_ONCE",
    "Accounts",
    "Audit",
    "AuditEntry",
    "Beat",
    "CancelRequest",
    "Cancelled",
    "Capabilities",
    "Count",
    "Counter",
    "Created",
    "Creation",
    "Engine",
    "FairRuns",
    "Fleet",
    "Hint",
    "History",
    "Idempotency",
    "IdempotencyKey",
    "JobQuery",
    "JobRow",
    "Jobs",
    "Key",
    "KeyHolder",
    "LastAndNext",
    "Lists",
    "Maintenance",
    "NewJob",
    "Page",
    "Permitted",
    "Planned",
    "Planning",
    "Quota",
    "Reserved",
    "Revoked",
    "Role",
    "RunDiagnosis",
    "RunQuery",
    "Running",
    "Signals",
    "Task",
    "Topic",
    "Usage",
    "Worker",
]


class Engine(Protocol):
    """A store with everything oncue needs. `engines.open` makes one from a URL, its schema up to date."""

    name: str
    capabilities: Capabilities
    jobs: Jobs
    planning: Planning
    running: Running
    fleet: Fleet
    signals: Signals
    history: History
    lists: Lists
    accounts: Accounts
    audit: Audit
    idempotency: Idempotency
    maintenance: Maintenance

    async def now(self) -> Instant:
        """The store's own time."""
        ...

    async def ping(self, within: Duration) -> None:
        """Whether the store takes writes: StoreUnavailable, if it has not said so after this long.

        It does not queue behind one's own calls: that these take long is no sign of its being away.
        """
        ...

    async def probe(self) -> None:
        """Returns if a small write was just kept, durably, where it will be found again. StoreUnavailable: it was not.

        It may queue behind one's own calls: for whoever asks whether to send more of them, about once a second.
        """
        ...

    async def close(self) -> None: ...
