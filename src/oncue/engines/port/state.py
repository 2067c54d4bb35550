"""The verbs that change state: they create jobs and runs, move runs between states, and say which caller may do it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from oncue.domain.change import JobChange
from oncue.domain.ids import NO_CLASS, ClassId, JobId, RunId, UserNumber, WorkerId
from oncue.domain.instants import LONG_AGO, NEVER, Instant
from oncue.domain.job import Snapshot
from oncue.domain.overlap import HeldRun, Withdrawal
from oncue.domain.placement import ClassKey
from oncue.domain.planning import PLANNED_AT_ONCE, DueJob, Plan
from oncue.domain.quota import Quota
from oncue.domain.run import Claimed, Gathered, Holding, Peeked, Settled, Settlement
from oncue.domain.zones import PACKAGED
from oncue.engines.values import (
    Beat,
    Cancelled,
    CancelRequest,
    Creation,
    Expired,
    FairRuns,
    KeyHolder,
    NewJob,
    Permitted,
    Planned,
    StampGuard,
    Task,
    Worker,
)


class Jobs(Protocol):
    """Job definitions, as users create and change them."""

    async def intern(self, keys: Sequence[ClassKey]) -> list[ClassId]:
        """Return the number of each class; a new class gets a number, charged to no user. A repeat returns the same.

        A number is valid for an hour, or for as long as a stored row has it: `Maintenance.maintain` drops classes to
        which nothing refers. A number is never given to another class.
        """
        ...

    async def classes(self, after: ClassId = NO_CLASS, limit: int | None = None) -> dict[ClassId, ClassKey]:
        """Return at most `limit` classes with numbers above `after`, in order.

        Classes appear in the order of their numbers: a caller that has seen a number sees no new class below it.
        """
        ...

    async def create(
        self, new: Sequence[NewJob], now: Instant, *, whole: bool = False, guard: StampGuard | None = None
    ) -> list[Creation]:
        """Store jobs, their runs, cursors and idempotency keys durably; return one answer for each job, in order.

        Without `whole`, each job stands alone: a job that its key refuses does not affect the others (group commit
        relies on this). With `whole`, all jobs are stored or none: when any answer is not NEW, nothing was stored.
        A repeat with the same idempotency key answers REPEATED; so does a repeat without a key, by the job's id,
        whatever state the job is in by then: a caller whose answer was lost may simply retry.
        Of a user's active or paused jobs at most one has a given `spec.key`; any other job with it is KEY_TAKEN. A
        one-shot that is being stopped no longer counts here: it can only end as cancelled.
        A job that its user's `quota` has no capacity for is OVER_QUOTA, in order. The quota is exact under any
        concurrency: no user gets one job too many, and no user with capacity is refused, least of all a repeat. A
        refused job has taken neither kind of key.
        For a job whose `class_id` is 0 the engine finds the class or, if the job is stored, creates it for the job's
        user. TooManyClasses: one such user has created `Settings.quota_classes` classes; nothing of the call was
        stored, and the caller may retry with the other jobs.
        Superseded: `guard` does not hold; nothing was stored. So it is with `apply` and `cancel`.
        """
        ...

    async def keyed(self, uid: UserNumber, key: str) -> KeyHolder | None:
        """Return the user's job that has this stable key, or had it last; that job may have ended.

        A finished job may also be forgotten. The engine remembers for `Settings.keep_job_keys` that it existed, until
        another job takes the key or the job is purged: a client that puts the same job again must not run it twice.
        The key of a cancelled job is forgotten with the job.
        """
        ...

    async def read(self, uid: UserNumber | None, job_id: JobId) -> Snapshot | None:
        """Return a job in any state, read from one consistent moment. None: no such job, or another user's.

        A one-shot whose run is being stopped is cancelled.
        """
        ...

    async def apply(
        self, change: JobChange, now: Instant, quota: Quota | None = None, guard: StampGuard | None = None
    ) -> bool:
        """Apply a whole decision if its guards hold. False: the job has changed; read it and decide again.

        QuotaExceeded: the owner's `quota` has no capacity for the bytes that the payload `grows` by, or for the runs
        added by hand; runs that exist already do not count again. TooManyClasses: the owner may not create the
        `new_class`. In both cases nothing was written.

        True: the job is as the guards say with the change written, and `domain.edited.changed` says how that looks.
        A one-shot's definition is its run: `apply` guards its version and status, and its runs by `withdraw`, `hold`
        and `release`.
        When a recurring job is paused or resumed, all its waiting runs follow, in bites; so they do after a `crowded`
        change (`domain.following` says how). `apply` does a few bites before it answers, `finish` does the others.
        After the answer to any of these changes except a resume, no run of the job that has not followed starts:
        claims refuse it. A run that is withdrawn and added again keeps its token.

        Old definitions stay readable for the runs that started with them. A repeat finds its guard gone: False.
        """
        ...

    async def cancel(
        self, uid: UserNumber | None, job_id: JobId, now: Instant, guard: StampGuard | None = None
    ) -> Cancelled | None:
        """Cancel a job: none of its runs starts after this answer. Waiting runs are final, running ones are told.

        The engine reaches the job's runs in bites; each bite comes from one read that sees every run in one place,
        until a read finds no run. `cancel` does a few bites before it answers, `finish` does the others. A repeat
        answers that it stopped nothing more. `job` is the job as the transaction that cancelled it left it. None: no
        such job.
        """
        ...

    async def unfinished(self, limit: int) -> list[JobId]:
        """Return jobs that were changed or cancelled and have runs that have not followed yet."""
        ...

    async def finish(self, job_id: JobId, now: Instant) -> Cancelled:
        """Make runs of an unfinished job follow its current state: held, released, planned again, or ended and told.

        At the end `finish` purges the job, if a purge was requested. One call does a few bites: the job is unfinished
        until a call finds nothing left to do.
        """
        ...

    async def purge(self, job_id: JobId, limit: int) -> int:
        """Delete a part of a job that has ended: up to `limit` runs, or lines of the ledger, per call.

        The definition goes last, with its versions, tags and stable key, so an interrupted caller simply continues.
        Returns how many were deleted. 0: the job does not exist (any more), is active or paused, or has a waiting or
        running run; then nothing was deleted. Sums, the audit log, idempotency keys, and starts that count for a rate
        remain.
        """
        ...

    async def purge_later(self, job_id: JobId, now: Instant) -> None:
        """Request that `finish` purges a cancelled job. A repeat changes nothing."""
        ...


class Planning(Protocol):
    """Turn occurrences into runs. Any number of schedulers call these verbs at once; there is no leader."""

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
        """Take up to `limit` active jobs with `since <= next_at <= until` that no other caller has locked; write what
        `decide` says.

        One transaction per job writes runs, ledger and cursor, under the lock of its cursor. `decide` is pure and
        fast; the engine may call it again for the same job if the write did not happen. The floor only rises, so a
        repeat plans nothing twice. Nearest first.

        The number of runs bounds a call, too: once there are `runs` of them or more, or `decide` returns None, the
        other jobs stay as they are, for the next call. So one transaction writes fewer than `runs` plus one job's step.

        `rules` names the time-zone rules that `decide` uses. Of the rules that schedulers have planned by within the
        last minute (`engines.rules`) only the newest count: a caller with older ones does not get jobs whose cursor
        names any rules. A caller with the newest also gets jobs whose cursor names other rules, after the due ones,
        due or not.
        """
        ...

    async def overdue(self, limit: int, now: Instant) -> list[HeldRun]:
        """Return scheduled runs whose instant has come but whose lane is full, by `wanted`: overlap decides on them.

        Each comes with the run that its lane has admitted, if that is a run of the same job: as `busy` if that run has
        begun (it runs, was returned to the queue, or is between two attempts), else as `first`.
        """
        ...

    async def withdraw(self, withdrawals: Sequence[Withdrawal], now: Instant) -> frozenset[RunId]:
        """Remove held runs without an attempt and write their ledger entries. Runs no longer held stay.

        A `let_in` run is removed if it waits and no worker has ever claimed it.
        """
        ...

    async def expire(
        self, limit: int, now: Instant, decide: Callable[[Claimed], Settlement] | None = None
    ) -> list[Expired]:
        """End waiting runs that could not start in time (`expires_at < now`, no attempt), as EXPIRED; return them.

        `decide` says what is to be told of each, by the notices of its settlement; None: nothing.
        """
        ...

    async def permit(self, until: Instant, limit: int, now: Instant) -> Permitted:
        """Grant starts to runs that only their rate limit holds and that are due by `until`, earliest first.

        Each run gets the first instant that its meter allows, as `domain.meter.starts` says, and is due then; a run
        that may start at once keeps its due. Two callers never grant starts of one meter at the same time. A grant is
        kept until it no longer counts. The engine takes a start back if no worker has used it half a second later,
        also from a run that is held again.
        A repeat grants nothing twice: a run with a grant is not held any more.
        """
        ...

    async def recall(self, until: Instant, now: Instant) -> int:
        """Correct starts that were granted for later than `until`, by a clock that was ahead and has been set back.

        Unused starts are taken back; used ones count as granted now, so that their meters wait for as long as the rate
        says, and not until the clock reaches that instant. Returns how many. A repeat finds none.
        """
        ...


class Running(Protocol):
    """The hot path: peek ahead, claim at the due instant, settle in batches."""

    async def peek(self, classes: Sequence[ClassId], after: Instant, until: Instant, limit: int) -> list[Peeked]:
        """Return waiting runs with `after < due <= until` that are not held, up to `limit` per class, earliest first.

        A read: it reserves nothing. Its cost grows with what it returns and with the number of classes that have
        waiting runs; it does not grow with the number of waiting or ended runs, nor with the other classes.
        """
        ...

    async def peek_fair(
        self, classes: Sequence[ClassId], after: UserNumber, users: int, each: int, now: Instant
    ) -> FairRuns:
        """Return due runs that are not held, up to `each` of each of the next `users` users after `after` with any.

        For when work is late: in every round each user gets a turn, however many runs one user has. After the last
        user the first one follows; a user with nothing due takes no turn. In the order of the turns. The answer may
        miss runs of a user who has hundreds that are held, not due yet, or of other classes: these still start by rank.
        """
        ...

    async def claim(
        self, worker_id: WorkerId, run_ids: Sequence[RunId], now: Instant, until: Instant = NEVER
    ) -> list[Claimed]:
        """Make these runs this worker's own: the worker may start only the returned ones.

        Left out: a run that is not waiting, not due, held, expired, in a paused queue, or being claimed or cancelled by
        another caller at this moment; and all of them if the worker was declared dead, is drained, or has sent a
        heartbeat later than `until`: nobody waits for this claim any more. Raises the token of each. `free_at` says
        when a lane, a rate, a pause or another worker let go of the run last, if that kept it waiting after the verb
        that stored it. A repeat returns nothing for runs that the first call claimed: `held_by` finds them.
        """
        ...

    async def held_by(self, worker_id: WorkerId, run_ids: Sequence[RunId]) -> list[Claimed]:
        """Return those of these runs that the worker holds now, as `claim` returned them, with the newest checkpoint.

        So a worker that lost a claim's answer can start its runs or return them to the queue. Nothing for a worker
        that was declared dead.
        """
        ...

    async def holdings(self, worker_id: WorkerId) -> list[Holding]:
        """Return all the runs that the worker holds now. Nothing for a worker that was declared dead.

        Whatever gave them to the worker: so it finds those that it does not know of, and those that it lost.
        """
        ...

    async def settle(self, worker_id: WorkerId, settlements: Sequence[Settlement], now: Instant) -> Settled:
        """Write the outcomes of attempts, fenced by (run, token, worker).

        If a cancel was requested, the run ends as CANCELLED whatever its settlement says. A retry keeps its position in
        its lane; it is held if its job was paused meanwhile.
        The notices of a settlement that is written as it is are inserted in the same transaction, each if the streak of
        its job was long enough before; their step is written to that streak (`domain.notices.fold`).
        A repeat answers `lost` for what the first call wrote: read the run to tell the two cases apart.
        """
        ...

    async def gather(
        self,
        worker_id: WorkerId,
        run: Claimed,
        limit: int,
        now: Instant,
        decide: Callable[[Sequence[Claimed]], Gathered],
    ) -> bytes | None:
        """End other due runs that only this run's rate holds, earliest first, and write into this one what it took.

        In one transaction the others are claimed, passed to `decide`, and settled as it says, and the run gets its
        payload and checkpoint, also for later attempts. A run that has a checkpoint, or was requeued, is not taken
        along. Returns the payload. None, and nothing is written: there is no other run, or the worker does not hold
        this one any more, was declared dead, or is drained. A repeat takes the next ones: `held_by` says what the
        first call took.
        """
        ...

    async def hand_back(self, worker_id: WorkerId, runs: Sequence[Claimed], now: Instant) -> frozenset[RunId]:
        """Return runs to the queue: waiting again, no attempt counted. They do not expire any more. Each is due when
        its `due` says: as before, or later if the caller changed it.

        Returns the runs that are back in the queue, and those that ended as CANCELLED instead because a cancel was
        requested.
        """
        ...

    async def cancel(self, uid: UserNumber | None, run_id: RunId, now: Instant) -> Cancelled | None:
        """Stop one run: at once if it waits, by a request if it runs, `final` if it has ended. None: no such run.

        Waits for a claim in flight, so that the answer is the truth. A repeat answers the same.
        """
        ...

    async def save(
        self,
        worker_id: WorkerId,
        run: Claimed,
        *,
        progress: bytes | None = None,
        checkpoint: bytes | None = None,
        payload: bytes | None = None,
    ) -> bool:
        """Save an attempt's progress or checkpoint, or another payload of a run that carries its definition, fenced.

        False: the run no longer belongs to this attempt.
        """
        ...

    async def recover_runs(
        self, limit: int, now: Instant, decide: Callable[[Claimed, WorkerId, Instant], Settlement]
    ) -> Settled:
        """Settle runs whose worker is not registered (any more), as `decide(run, worker, claimed_at)` says.

        Also finds the runs that a caller which died half-way left. Concurrent callers never take the same run.
        """
        ...


class Fleet(Protocol):
    """Workers and the tasks that they can run."""

    async def register(self, worker: Worker, now: Instant) -> None:
        """Register a worker. A repeat refreshes it, and leaves it drained if it was."""
        ...

    async def beat(
        self,
        worker_id: WorkerId,
        now: Instant,
        *,
        draining: bool = False,
        classes: Sequence[ClassId] | None = None,
        load: bytes | None = None,
    ) -> Beat | None:
        """Write a worker's heartbeat, once for all its runs. None: it was declared dead; it must stop every run and
        start again under a new identity.

        `Worker.beat_at` changes with every heartbeat, whichever way the clock was set meanwhile: other processes
        recognise a heartbeat by that change.
        `classes` and `load` (`domain.load`), if given, replace what the worker said before. Workers that take no new
        runs have no place among their peers.
        """
        ...

    async def cancel_requests(self, worker_id: WorkerId) -> tuple[CancelRequest, ...]:
        """Return the runs that the worker has to stop. A request stays until its run ends: a lost answer is no loss."""
        ...

    async def expire_workers(self, silent: Mapping[WorkerId, Instant]) -> list[WorkerId]:
        """Declare these workers dead, each if its last heartbeat is still this one; return the newly dead.

        No other verb declares a worker dead. The caller decides which worker had no heartbeat for too long, by its own
        monotonic clock: two readings of the store's clock may differ by hours only because that clock was set.
        """
        ...

    async def leave(self, worker_id: WorkerId) -> Worker | None:
        """Remove a worker that stops. The runs it still holds are recovered at once. None: it was removed before."""
        ...

    async def drain(self, worker_id: WorkerId, now: Instant) -> bool:
        """Drain a worker until `undrain`: it claims nothing from now on, and keeps the runs it has. Its heartbeats tell
        it. False: no such worker. A repeat changes nothing.
        """
        ...

    async def undrain(self, worker_id: WorkerId) -> bool:
        """Let a drained worker claim again. False: no such worker. A repeat changes nothing."""
        ...

    async def worker_names(self, worker_ids: Sequence[WorkerId]) -> dict[WorkerId, str]:
        """Return the names of these workers, also of those that are gone, as long as history refers to them."""
        ...

    async def workers(self) -> list[Worker]: ...

    async def announce(self, tasks: Sequence[Task], now: Instant) -> None:
        """Register tasks that workers can run; the newest of a name wins. They stay known when their workers go.

        Rows of the outbox that are kept and name one of them are tried again at once.
        """
        ...

    async def tasks(self) -> list[Task]: ...

    async def pause_queue(self, queue: str, now: Instant, by: UserNumber | None = None) -> None:
        """Stop claims of this queue's runs until it is resumed. A repeat changes nothing, nor by whom it was paused."""
        ...

    async def resume_queue(self, queue: str, now: Instant) -> None:
        """Allow claims again; what was due meanwhile could not start before `now`."""
        ...

    async def paused_queues(self) -> dict[str, Instant]: ...

    async def paused_by(self) -> dict[str, UserNumber]:
        """Return who paused each paused queue, as far as that was said."""
        ...
