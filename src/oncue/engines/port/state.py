"""The moves of state: what makes jobs and runs, moves them from place to place, and who may do it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from oncue.domain.change import JobChange
from oncue.domain.ids import NO_CLASS, ClassId, JobId, RunId, UserNumber, WorkerId
from oncue.domain.instants import LONG_AGO, Instant
from oncue.domain.job import Snapshot
from oncue.domain.overlap import HeldRun, Withdrawal
from oncue.domain.placement import ClassKey
from oncue.domain.planning import PLANNED_AT_ONCE, DueJob, Plan
from oncue.domain.quota import Quota
from oncue.domain.run import Claimed, Peeked, Settled, Settlement
from oncue.domain.zones import PACKAGED
from oncue.engines.values import (
    Beat,
    Cancelled,
    CancelRequest,
    Creation,
    FairRuns,
    KeyHolder,
    NewJob,
    Permitted,
    Planned,
    Task,
    Worker,
)


class Jobs(Protocol):
    """Definitions, as users make and change them."""

    async def intern(self, keys: Sequence[ClassKey]) -> list[ClassId]:
        """The number of each class, made when new, for nobody in particular. A repeat gives the same numbers.

        A number is good for an hour, or for as long as anything is stored that has it: `Maintenance.maintain` drops
        classes to which nothing refers. It is never given to another class.
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
