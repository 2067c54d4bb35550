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
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Protocol
from uuid import UUID

from oncue.domain.change import JobChange
from oncue.domain.explain import RunDiagnosis
from oncue.domain.ids import NO_CLASS, ClassId, JobId, KeyId, RunId, UserNumber, WorkerId
from oncue.domain.instants import LONG_AGO, Duration, Instant
from oncue.domain.job import Snapshot
from oncue.domain.ledger import Entry
from oncue.domain.overlap import HeldRun, Withdrawal
from oncue.domain.placement import ClassKey
from oncue.domain.planning import PLANNED_AT_ONCE, DueJob, Plan
from oncue.domain.quota import Quota, Usage
from oncue.domain.run import Claimed, NewRun, Peeked, RunView, Settled, Settlement
from oncue.domain.zones import PACKAGED
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

ROLLED_UP_AT_ONCE = 20_000  # appended counts in one statement

__all__ = [
    "ROLLED_UP_AT_ONCE",
    "Accounts",
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
    "IdempotencyKey",
    "JobQuery",
    "JobRow",
    "Jobs",
    "Key",
    "KeyHolder",
    "LastAndNext",
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


class Jobs(Protocol):
    """Definitions, as users make and change them."""

    async def intern(self, keys: Sequence[ClassKey]) -> list[ClassId]:
        """The number of each class, made when new, for nobody in particular. A repeat gives the same numbers.

        A number is good for an hour, or for as long as anything is stored that has it: `History.maintain` drops classes
        to which nothing refers. It is never given to another class.
        """
        ...

    async def classes(self, after: ClassId = NO_CLASS, limit: int | None = None) -> dict[ClassId, ClassKey]:
        """The classes with numbers after this one, in order, at most so many.

        They appear in the order of their numbers: who has seen one will see none before it that is new.
        """
        ...

    async def create(self, new: Sequence[NewJob], now: Instant, *, whole: bool = False) -> list[Creation]:
        """Store jobs, their runs, cursors and idempotency keys durably; one answer each, in order.

        Without `whole`, each stands alone: one refused by its key does not disturb its neighbours (this is what
        group commit calls). With `whole`, all are stored or none: when any answer is not NEW, nothing was.
        A repeat with the same idempotency key answers REPEATED; so does one without, by the job's id, whatever became
        of the job since: a caller whose answer was lost may simply ask again.
        Of a user's jobs that have not ended at most one has a given `spec.key`: any other one is KEY_TAKEN. A one-shot
        that is being stopped has ended in this respect: nothing but cancelled can become of it.
        One for which its `quota` leaves no room is OVER_QUOTA, in order. That is exact whatever else is going on:
        nobody gets one too many, and nobody is refused who has room, a repeat least of all. Who is refused has taken
        no key of either kind.
        A job whose `class_id` is 0 has its class found or, if it is stored, made for its user. TooManyClasses: one such
        user has made `Settings.quota_classes`, and nothing of the call was stored: the others may be asked for again.
        """
        ...

    async def keyed(self, uid: UserNumber, key: str) -> KeyHolder | None:
        """The user's job that has this stable key, or had it last: it may have ended.

        It may be forgotten as well, if it has finished. That it was there is known for `Settings.keep_job_keys`, until
        another job takes the key or it is purged: who asks for the same again must not run it twice. The key of one
        that was cancelled is forgotten with it.
        """
        ...

    async def read(self, uid: UserNumber | None, job_id: JobId) -> Snapshot | None:
        """A job in whatever state, from one consistent moment. None: no such job, or another user's.

        A one-shot whose run is being stopped is cancelled.
        """
        ...

    async def apply(self, change: JobChange, now: Instant, quota: Quota | None = None) -> bool:
        """Apply a decision whole, if its guards hold. False: the job moved on; read and decide again.

        QuotaExceeded: its owner's `quota` has no room for the bytes that the payload `grows` by, or for the runs that
        are added by hand; those that are there already do not count again. TooManyClasses: its
        owner may not make its `new_class`. Nothing was written.

        A one-shot's definition is its run: its status is guarded, and its runs by `withdraw`, `hold` and `release`.
        When a recurring job is paused or resumed, all its waiting runs follow, in bites, as they do a change that is
        `crowded` (`domain.following` says how). A few bites are taken before the answer, the others by `finish`. After
        the answer to any of these but a resume nothing of the job starts that has not followed: claims refuse it. A run
        that is withdrawn and added again keeps its token.

        Old definitions stay readable for the runs that started with them. A repeat finds its guard gone: False.
        """
        ...

    async def cancel(self, uid: UserNumber | None, job_id: JobId, now: Instant) -> Cancelled | None:
        """End a job: nothing of it starts after this answer. Waiting runs are final, running ones are told.

        What it has of runs is reached in bites, each found by one look that sees every run in one place, until a look
        finds nothing left; a few before the answer, the others by `finish`. A repeat answers with nothing more stopped.
        None: no such job.
        """
        ...

    async def unfinished(self, limit: int) -> list[JobId]:
        """Jobs that were changed or cancelled, and not all of whose runs have followed."""
        ...

    async def finish(self, job_id: JobId, now: Instant) -> Cancelled:
        """Let runs of such a job follow what it is now: held, released, planned anew, or ended and told; in the end it
        is purged, if that was asked for. A few bites of it: the job is unfinished until a call has found nothing left.
        """
        ...

    async def purge(self, job_id: JobId, limit: int) -> int:
        """Delete what there is of a job that has ended, some of it: up to `limit` runs, or lines of the ledger, a time.

        Its definition goes last, with its versions, tags and stable key: who was interrupted simply goes on. Returns
        how much went. 0: there is no such job (any more), or it has not ended, or a run of it waits or runs: then
        nothing was deleted. What remains are sums, the audit log, idempotency keys, and starts that count for a rate.
        """
        ...

    async def purge_later(self, job_id: JobId, now: Instant) -> None:
        """Have a job that was cancelled purged by whoever finishes it. A repeat changes nothing."""
        ...

    async def list(self, query: JobQuery) -> Page[JobRow]:
        """Reads a bounded number of rows whatever the filter. A job that ends meanwhile may be listed twice."""
        ...


class Planning(Protocol):
    """Occurrences into runs. Any number of schedulers call these at once; none is special."""

    async def plan(
        self,
        until: Instant,
        limit: int,
        now: Instant,
        decide: Callable[[DueJob], Plan | None],
        *,
        since: Instant = LONG_AGO,
        runs: int = PLANNED_AT_ONCE,
        rules: str = PACKAGED.version,
    ) -> Planned:
        """Take up to `limit` active jobs with `since <= next_at <= until` that nobody else holds; write what `decide`
        says.

        Per job one transaction: runs, ledger and cursor, under the lock of its cursor. `decide` is pure and quick; it
        may be called again for the same job if the write did not happen. The floor only rises, so a repeat plans
        nothing twice. Nearest first.

        Bounded by runs, not by jobs alone: once there are `runs` of them or more, or `decide` says None, the jobs that
        are left stay as they are, for the next call. So one transaction writes fewer than `runs` and one job's step.

        `rules` are the time-zone rules that `decide` goes by. Of all that schedulers have planned by within the last
        minute (`engines.rules`) only the newest count: with older ones, jobs whose cursor names any rules are not
        taken. With the newest, those whose cursor names others are taken as well, after the due ones, due or not.
        """
        ...

    async def overdue(self, limit: int, now: Instant) -> list[HeldRun]:
        """Scheduled runs whose instant has come but whose lane is taken, by `wanted`: overlap decides on them.

        Each with the run of its job that the lane has let in, if it is one of its job: `busy` if that has begun (it
        runs, was handed back, or is between two attempts), else `first`.
        """
        ...

    async def withdraw(self, withdrawals: Sequence[Withdrawal], now: Instant) -> frozenset[RunId]:
        """Take back held, untried runs and write their ledger entries. Those no longer held are left alone.

        One that was `let_in` is taken back if it waits and nobody has ever claimed it.
        """
        ...

    async def expire(self, limit: int, now: Instant) -> int:
        """End waiting runs that could not start in time (`expires_at < now`, never tried), as EXPIRED."""
        ...

    async def permit(self, until: Instant, limit: int, now: Instant) -> Permitted:
        """Give starts to runs that only their rate holds and that are due by `until`, earliest first.

        Each gets the first instant at which its meter allows one, as `domain.meter.starts` says, and is due then;
        what may start at once is due as before. Several callers never grant one meter at the same time. A grant is
        kept until it no longer counts. A start that nobody has made use of half a second later is taken back, also
        from what is held again.
        A repeat grants nothing twice: what was granted is not held any more.
        """
        ...

    async def recall(self, until: Instant, now: Instant) -> int:
        """Mend starts that were given for later than `until`: by a clock that was ahead then, and was set back since.

        Those that nobody has made use of are taken back; the others count as given now, so that their meters wait for
        as long as the rate says, and not until the clock is there again. How many. A repeat finds none.
        """
        ...


class Running(Protocol):
    """The hot path: peek ahead, claim on the instant, settle in batches."""

    async def peek(self, classes: Sequence[ClassId], after: Instant, until: Instant, limit: int) -> list[Peeked]:
        """Waiting runs with `after < due <= until` that nothing holds, up to `limit` of each class, earliest first.

        A read: reserves nothing. Its cost grows with what it returns and with the classes in which anything waits, not
        with how much waits or has ended, nor with the classes in which nothing does.
        """
        ...

    async def peek_fair(
        self, classes: Sequence[ClassId], after: UserNumber, users: int, each: int, now: Instant
    ) -> FairRuns:
        """Due runs that nothing holds, up to `each` of each of the next `users` users after this one who have any.

        For when work is late: round after round everybody gets a turn, however much one user has. After the last user
        it goes on with the first; who has nothing due takes no turn. In the order of the turns. It may miss runs of a
        user who has hundreds that are held, to come, or of other classes: these still have their place by rank.
        """
        ...

    async def claim(self, worker_id: WorkerId, run_ids: Sequence[RunId], now: Instant) -> list[Claimed]:
        """Make these runs this worker's: only what is returned may be started.

        Left out: what is not waiting, not due, held, expired, being claimed or cancelled by somebody else this moment,
        in a paused queue; and everything if the worker was buried. Raises the token of each. A repeat returns nothing
        for runs that the first call got: they are found by `held_by`.
        """
        ...

    async def held_by(self, worker_id: WorkerId, run_ids: Sequence[RunId]) -> list[Claimed]:
        """Those of these that the worker holds now, each as `claim` gave it, with the newest checkpoint.

        So whoever lost a claim's answer can start or hand back what it got. Nothing for a worker that was buried.
        """
        ...

    async def settle(self, worker_id: WorkerId, settlements: Sequence[Settlement], now: Instant) -> Settled:
        """Write what attempts came to, fenced by (run, token, worker).

        If a cancel was asked for, the run ends as CANCELLED whatever its settlement says. A retry keeps its place in
        its lane; of a job that was paused meanwhile it is held.
        A repeat answers `lost` for what the first call wrote: look the run up to tell the two apart.
        """
        ...

    async def hand_back(self, worker_id: WorkerId, runs: Sequence[Claimed], now: Instant) -> frozenset[RunId]:
        """Give runs back unspent: waiting again, due as before, no attempt counted. They do not expire any more.

        Returns those given back.

        One that was to be cancelled ends as CANCELLED instead, and is returned too.
        """
        ...

    async def cancel(self, uid: UserNumber | None, run_id: RunId, now: Instant) -> Cancelled | None:
        """Stop one run: certain if it waits, asked for if it runs, `final` if it has ended. None: no such run.

        Waits for a claim in flight, so that the answer is the truth. A repeat says the same.
        """
        ...

    async def save(
        self, worker_id: WorkerId, run: Claimed, *, progress: bytes | None = None, checkpoint: bytes | None = None
    ) -> bool:
        """Keep an attempt's progress or checkpoint, fenced. False: the run is no longer this attempt's."""
        ...

    async def recover_runs(
        self, limit: int, now: Instant, decide: Callable[[Claimed, WorkerId, Instant], Settlement]
    ) -> Settled:
        """Settle runs whose worker is not registered (any more), as `decide(run, worker, claimed_at)` says.

        Finds also what a reaper that died half-way left. Several reapers never take the same run.
        """
        ...


class Fleet(Protocol):
    """Workers and what they can do."""

    async def register(self, worker: Worker, now: Instant) -> None:
        """Make a worker known. A repeat refreshes it."""
        ...

    async def beat(
        self, worker_id: WorkerId, now: Instant, *, draining: bool = False, classes: Sequence[ClassId] | None = None
    ) -> Beat | None:
        """I live: one write for all it holds. None: buried; stop everything, start again under a new identity.

        `Worker.beat_at` is another one after each, whichever way the clock was set meanwhile: that it changes is what
        others see of it.
        `classes`, if they are given, take the place of those it said before.
        """
        ...

    async def cancel_requests(self, worker_id: WorkerId) -> tuple[CancelRequest, ...]:
        """The runs it is asked to stop. Kept until the run ends, so a lost answer is asked for again."""
        ...

    async def expire_workers(self, silent: Mapping[WorkerId, Instant]) -> list[WorkerId]:
        """Declare these dead, each if its last beat is still this one. The only act that does; returns the newly dead.

        Who has been silent for too long is for the caller to say, by its own monotonic count: instants of the store's
        clock that were read at different times may be hours apart, and nothing happened but that it was set.
        """
        ...

    async def leave(self, worker_id: WorkerId) -> None:
        """A worker says goodbye. What it still holds is reaped at once."""
        ...

    async def workers(self) -> list[Worker]: ...

    async def announce(self, tasks: Sequence[Task], now: Instant) -> None:
        """Tasks that workers can run; the newest announcement of a name wins. They stay known when workers go."""
        ...

    async def tasks(self) -> list[Task]: ...

    async def pause_queue(self, queue: str, now: Instant) -> None:
        """Nothing of this queue is claimed until it is resumed."""
        ...

    async def resume_queue(self, queue: str) -> None: ...

    async def paused_queues(self) -> dict[str, Instant]: ...


class History(Protocol):
    """What happened, and what is left of it."""

    async def run(self, uid: UserNumber | None, run_id: RunId) -> RunView | None:
        """One run, in whatever state, with its definition and payload."""
        ...

    async def standing(self, uid: UserNumber | None, run_id: RunId) -> RunDiagnosis | None:
        """A run and what is in its way, from one moment. Places are counted up to 10,000. None: no such run."""
        ...

    async def runs(self, query: RunQuery) -> Page[RunView]:
        """Live runs first, then ended ones, newest end first. Bounded like `Jobs.list`; without payloads."""
        ...

    async def recent(self, uid: UserNumber | None, since: Instant, limit: int) -> list[RunView]:
        """What runs; what ended at or after `since`, newest end first; what waits again since then, because an attempt
        failed or was lost. Up to `limit` of each. Without payloads.

        A run that moves meanwhile may come twice, the second time as it was later.
        """
        ...

    async def last_and_next(self, job_ids: Sequence[JobId]) -> dict[JobId, LastAndNext]:
        """For each of these jobs its last run and its next: for a page of them at once. Without payloads.

        The last is, of those that run or are between two attempts, the one wanted last; else the one that ended last.
        """
        ...

    async def ledger(
        self, uid: UserNumber | None, job_id: JobId, limit: int = 100, after: str | None = None
    ) -> Page[Entry]:
        """What did not become a run, newest first."""
        ...

    async def dead_letters(self, uid: UserNumber | None, limit: int = 100, after: str | None = None) -> Page[RunView]:
        """Dead runs nobody has dealt with, newest first, with payload and every attempt."""
        ...

    async def requeue(self, runs: Sequence[NewRun], now: Instant, quota: Quota | None = None) -> frozenset[RunId]:
        """Take each run's `parent` off the dead letters and add the run: one for each parent that is still there.

        QuotaExceeded: their owner's `quota` has no room for all of them. Nothing was written.
        """
        ...

    async def discard(self, uid: UserNumber | None, run_ids: Sequence[RunId]) -> frozenset[RunId]:
        """Take runs off the dead letters. Their history stays."""
        ...

    async def append_log(self, run_id: RunId, number: int, text: bytes, now: Instant) -> None:
        """Part `number` of a run's log. A repeat of the same part changes nothing. What exceeds the cap is dropped."""
        ...

    async def read_log(self, run_id: RunId) -> bytes: ...

    async def counters(self, uid: UserNumber | None = None) -> list[Counter]:
        """Sums kept as things happen; never by counting tables."""
        ...

    async def roll_up(self, limit: int = ROLLED_UP_AT_ONCE) -> int:
        """Fold up to `limit` appended counts into their sums; how many. At the limit there may be more.

        Any scheduler, about once a second.
        """
        ...

    async def tended(self, now: Instant, step: Duration) -> Instant:
        """The time to tend by: `now`, but at most `step` later than what the last call of anybody answered.

        So that one wrong reading of a clock drops little: nothing brings back what is gone. The first call ever takes
        `now` as it is; a clock that was set back is followed at once. A repeat may move it a step further.
        """
        ...

    async def maintain(self, now: Instant, keep: Duration) -> int:
        """Make room for history ahead and drop whole stretches that ended before `now - keep`; returns how many.

        Open dead letters stay for `Settings.keep_dead_letters`, whatever becomes of their runs, up to
        `Settings.most_dead_letters` of each user; then the oldest are discarded, and the audit log says so. A recurring
        job that has ended goes when none of its runs is left. Of a finished job that was put by a stable key, it is
        known for `Settings.keep_job_keys` that it was there.

        All of it in bites: no transaction takes long, and none of its parts keeps another from being done. The first
        error is raised after all were tried. Idempotency keys are in two generations: once the
        current one is older than `Settings.repeat_for`, the other one is emptied whole and is current from then on. So
        a key lasts that long, and at most twice as long. One caller turns, however many there are.

        A class goes once no job, open run, dead letter or run in history has it, and nobody has asked for it for a day.
        What it counted is then counted by its task's class of the queue `placement.GONE`, so that sums stay.
        """
        ...


class Accounts(Protocol):
    """Users, their keys, and what they did."""

    async def user(self, user_id: str, now: Instant) -> UserNumber:
        """The number of a user, made when new."""
        ...

    async def add_key(self, key: Key) -> None:
        """A repeat changes nothing."""
        ...

    async def add_first_key(self, key: Key) -> bool:
        """Add it only if the store has no key at all. Of many callers at once exactly one is told True."""
        ...

    async def key(self, key_hash: bytes) -> Key | None:
        """The key with this hash, revoked or not."""
        ...

    async def keys(self) -> list[Key]: ...

    async def revoke(self, key_id: KeyId, now: Instant) -> Revoked:
        """Make a key good for nothing. A repeat keeps the first time of revocation.

        Of the keys with the role admin that work at `now`, neither revoked nor expired, the last one is not revoked.
        That is exact, however many are revoked at once.
        """
        ...

    async def reserve(self, uid: UserNumber, idempotency_key: IdempotencyKey, made: UUID) -> Reserved:
        """Before something is made: the user's idempotency key is taken, durably, by whoever comes first with it.

        NEW: it is, with `made` as it was given, or as whoever was refused with the key left it. REPEATED: the answer of
        the first, or, if there is none (yet), the id it makes things with: who makes the same with the same id makes
        nothing new. KEY_REUSED: the key came with another body. Keys are kept as those of `Jobs.create` are, and exact
        in the same way: for at least `Settings.repeat_for`. A repeat with the same `made` answers NEW again.
        """
        ...

    async def answered(self, uid: UserNumber, idempotency_key: IdempotencyKey, made: UUID, answer: bytes) -> None:
        """Keep what was answered, for those who ask again. The first answer stays."""
        ...

    async def refused(self, uid: UserNumber, idempotency_key: IdempotencyKey, made: UUID) -> None:
        """Nothing was made: the key may come with another body, and gets the same id. Too late after an answer."""
        ...

    async def record(self, audit_entries: Sequence[AuditEntry]) -> None: ...

    async def audit(
        self, uid: UserNumber | None = None, limit: int = 100, after: str | None = None
    ) -> Page[AuditEntry]:
        """The audit log, newest first."""
        ...


class Signals(Protocol):
    """Wake-ups between processes. A lost hint costs a poll's delay, nothing else."""

    async def send(self, hints: Sequence[Hint]) -> None:
        """Never raises and never waits for the store for long; coalesced with what others send."""
        ...

    def listen(self) -> AsyncIterator[Hint]:
        """Hints as they come, one's own too. After a gap in the connection every topic is hinted once, without due."""
        ...


class Engine(Protocol):
    """A store with everything oncue needs. `engines.open` makes one from a URL, its schema up to date."""

    name: str
    capabilities: Capabilities
    jobs: Jobs
    planning: Planning
    running: Running
    fleet: Fleet
    history: History
    accounts: Accounts
    signals: Signals

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
