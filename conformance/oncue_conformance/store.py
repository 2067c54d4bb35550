"""A store as the tests see it: an engine, a clock that stands still, and short ways to create and change things."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any, Self, TypeVar
from uuid import UUID

import msgspec

from oncue.domain import attempt, change, overlap
from oncue.domain.change import JobChange
from oncue.domain.ids import NO_CLASS, ClassId, JobId, RunId, UserNumber, WorkerId, uuid7
from oncue.domain.instants import HOUR, MINUTE, SECOND, Duration, Instant
from oncue.domain.job import Job, Snapshot, Spec, decode_spec
from oncue.domain.lane import Concurrency
from oncue.domain.ledger import Entry
from oncue.domain.placement import ClassKey
from oncue.domain.planning import plan
from oncue.domain.run import Claimed, RunView, Settled, Settlement, State
from oncue.domain.schedule import Schedule
from oncue.domain.zones import PACKAGED, Rules
from oncue.engines.port import (
    Beat,
    Count,
    Created,
    Creation,
    Engine,
    IdempotencyKey,
    NewJob,
    Page,
    Permitted,
    Planned,
    RunQuery,
    Worker,
)
from oncue.testing.clock import FakeClock

T = TypeVar("T")

Open = Callable[[], Awaitable[Engine]]  # opens one more engine on the same database
EmptyStore = Callable[[], Awaitable[Open]]  # what an engine's author provides: each call creates a new database

LIVE = frozenset({State.WAITING, State.RUNNING})
LONG_AGO = Instant(0)
LEASE = Duration(15 * SECOND)


class Store:
    """An engine with everything a test needs. All durations are counted from `now`."""

    def __init__(self, engine: Engine, open_another: Open, clock: FakeClock, chance: Random) -> None:
        self.engine = engine
        self.clock = clock
        self.chance = chance
        self.jobs, self.planning, self.running = engine.jobs, engine.planning, engine.running
        self.fleet, self.signals, self.history, self.lists = engine.fleet, engine.signals, engine.history, engine.lists
        self.accounts, self.audit, self.idempotency = engine.accounts, engine.audit, engine.idempotency
        self.sessions = engine.sessions
        self.maintenance, self.auditing, self.members = engine.maintenance, engine.auditing, engine.members
        self.objects, self.archiving, self.forgetting = engine.objects, engine.archiving, engine.forgetting
        self.notices, self.search, self.ahead = engine.notices, engine.search, engine.ahead
        self.uid = self.stranger = UserNumber(0)
        self._open_another = open_another
        self._others: list[Store] = []
        self.numbers_classes = True  # False: new jobs leave it to the engine to find or create their class
        self._classes: dict[ClassKey, ClassId] = {}

    @classmethod
    async def on(cls, open_one: Open, seed: int = 1) -> Store:
        """Return a store ready for a test: there are two users."""
        store = cls(await open_one(), open_one, FakeClock(), Random(seed))
        store.uid = await store.accounts.user("ada", store.now)
        store.stranger = await store.accounts.user("bob", store.now)
        return store

    async def second(self) -> Store:
        """Return another engine on the same database, like another process's; closed with this one."""
        other = Store(await self._open_another(), self._open_another, self.clock, self.chance)
        other.uid, other.stranger = self.uid, self.stranger
        self._others.append(other)
        return other

    async def close(self) -> None:
        for other in self._others:
            await other.close()
        await self.engine.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # ---------------------------------------------------------------------------------------------------- time and ids

    @property
    def now(self) -> Instant:
        return self.clock.now()

    def at(self, length: int) -> Instant:
        return Instant(self.now + length)

    def advance(self, length: int) -> Instant:
        """Let time pass, or set the clock back. No test sleeps, so there is nothing to wake."""
        return self.clock.jump(length)

    def new_id(self) -> UUID:
        return uuid7(self.now, self.chance.randbytes(10))

    async def log(self, run_id: RunId) -> bytes:
        """The log of a run as it is stored."""
        return b"".join(part.text for part in await self.history.read_log(run_id))

    async def keyed(self, key: str, uid: UserNumber | None = None) -> JobId | None:
        holder = await self.jobs.keyed(uid or self.uid, key)
        return None if holder is None else holder.job_id

    # ------------------------------------------------------------------------------------------------------ making jobs

    async def class_of(self, spec: Spec) -> ClassId:
        key = spec.class_key
        if not self.numbers_classes:
            return NO_CLASS
        if key not in self._classes:
            [self._classes[key]] = await self.jobs.intern([key])
        return self._classes[key]

    async def class_ids(self) -> list[ClassId]:
        return list(await self.jobs.classes())

    async def new_one_shot(
        self,
        due: int = 0,
        *,
        uid: UserNumber | None = None,
        payload: bytes | None = None,
        gate: tuple[str, int] | None = None,
        idempotency_key: IdempotencyKey | None = None,
        **spec: Any,
    ) -> NewJob:
        """Return a one-shot, `due` from now, not yet stored. `spec` are fields of Spec; `gate` is a concurrency key.

        One that was due before is late since then: it is stored as if it had been created in time.
        """
        spec["concurrency"] = None if gate is None else Concurrency(*gate)
        job = self._job(Spec(schedule=Schedule(at=self.at(due)), **{"task": "noop"} | spec), uid, payload)
        class_id = await self.class_of(job.spec)
        run = change.only_run(job, class_id, self.now, scheduled_at=min(self.now, self.at(due)))
        return NewJob(job, class_id, run=run, idempotency_key=idempotency_key)

    async def new_recurring(
        self,
        schedule: Schedule | None = None,
        *,
        every: int = MINUTE,
        uid: UserNumber | None = None,
        payload: bytes | None = None,
        idempotency_key: IdempotencyKey | None = None,
        **spec: Any,
    ) -> NewJob:
        schedule = schedule or self.every(every)
        job = self._job(Spec(schedule=schedule, **{"task": "noop"} | spec), uid, payload)
        cursor = change.first_cursor(schedule, self.now)
        return NewJob(job, await self.class_of(job.spec), cursor=cursor, idempotency_key=idempotency_key)

    def every(self, length: int, **how: Any) -> Schedule:
        return Schedule(every=Duration(length), anchor=self.now, **how)

    def _job(self, spec: Spec, uid: UserNumber | None, payload: bytes | None) -> Job:
        owner = self.uid if uid is None else uid
        return Job(JobId(self.new_id()), owner, spec, payload, created_at=self.now, updated_at=self.now)

    async def create(self, *new: NewJob, whole: bool = False) -> list[Creation]:
        return await self.jobs.create(new, self.now, whole=whole)

    async def one_shot(self, due: int = 0, **how: Any) -> RunId:
        """Store a one-shot. Its run's id is its job's: `job_of` says so to the type checker."""
        return RunId(await self._stored(await self.new_one_shot(due, **how)))

    async def one_shots(self, n: int, due: int = 0, *, apart: int = 0, **how: Any) -> list[RunId]:
        new = [await self.new_one_shot(due + i * apart, **how) for i in range(n)]
        await self.create(*new)
        return [RunId(one.job.job_id) for one in new]

    async def recurring(self, schedule: Schedule | None = None, **how: Any) -> JobId:
        return await self._stored(await self.new_recurring(schedule, **how))

    async def _stored(self, new: NewJob) -> JobId:
        [answer] = await self.create(new)
        assert (answer.outcome, answer.job_id) == (Created.NEW, new.job.job_id)
        return new.job.job_id

    # -------------------------------------------------------------------------------------------- planning and changing

    async def plan(self, ahead: int = 0, *, limit: int = 100, rules: Rules = PACKAGED) -> Planned:
        """Do one pass of a scheduler that plans `ahead`."""
        now, until = self.now, self.at(ahead)
        return await self.planning.plan(
            until, limit, now, lambda job: plan(job, now, until, rules), rules=rules.version
        )

    async def plan_all(self, ahead: int = 0) -> int:
        """Do passes until nothing is left to plan; return how many runs they created."""
        made = 0
        while (done := await self.plan(ahead)).jobs:
            made += done.runs
        return made

    async def decide_overlaps(self) -> None:
        """Do what a scheduler does about runs that are due while their lane is full."""
        for decision in list(overlap.decide(await self.planning.overdue(1_000, self.now), self.now)):
            match decision:
                case overlap.Withdrawal():
                    await self.planning.withdraw([decision], self.now)
                case overlap.Displacement(going=going):
                    await self.running.cancel(None, going, self.now)

    async def permit(self, ahead: int = 0, *, limit: int = 100) -> Permitted:
        """Do one pass that grants starts to runs that wait for their rate."""
        return await self.planning.permit(self.at(ahead), limit, self.now)

    async def snapshot(self, job_id: JobId) -> Snapshot:
        found = await self.jobs.read(None, job_id)
        assert found is not None
        return found

    async def change(self, job_id: JobId, decide: Callable[[Snapshot], JobChange]) -> bool:
        return await self.jobs.apply(decide(await self.snapshot(job_id)), self.now)

    async def edited(self, snap: Snapshot, *, payload: bytes | None = None, **fields: Any) -> JobChange:
        """Return the change that sets these fields of the definition, decided on a snapshot; not yet applied."""
        spec = msgspec.structs.replace(snap.job.spec, **fields)
        body = snap.job.payload if payload is None else payload
        return change.edit(snap, spec, body, await self.class_of(spec), self.now)

    async def edit(self, job_id: JobId, *, payload: bytes | None = None, **fields: Any) -> bool:
        return await self.jobs.apply(
            await self.edited(await self.snapshot(job_id), payload=payload, **fields), self.now
        )

    async def pause(self, job_id: JobId) -> bool:
        return await self.change(job_id, lambda snap: change.pause(snap, self.now))

    # ---------------------------------------------------------------------------------------------------------- running

    async def worker(self, lease: Duration = LEASE, name: str = "worker") -> WorkerId:
        worker_id = WorkerId(self.new_id())
        worker = Worker(worker_id, name, "host", lease, started_at=self.now, beat_at=self.now)
        await self.fleet.register(worker, self.now)
        return worker_id

    async def beat(self, worker: WorkerId) -> Beat | None:
        return await self.fleet.beat(worker, self.now)

    async def claimable(self, limit: int = 10_000) -> list[RunId]:
        """Return what a worker for all classes would find due now, earliest first."""
        found = await self.running.peek(await self.class_ids(), LONG_AGO, self.now, limit)
        return [run.run_id for run in found]

    async def claim(self, worker: WorkerId, *run_ids: RunId) -> list[Claimed]:
        return await self.running.claim(worker, run_ids, self.now)

    async def claim_one(self, worker: WorkerId, run_id: RunId) -> Claimed:
        [claimed] = await self.claim(worker, run_id)
        return claimed

    async def claim_due(self, worker: WorkerId, limit: int = 10_000) -> list[Claimed]:
        """Peek and claim, as workers do; in the order of the peek."""
        due = await self.claimable(limit)
        claimed = {run.run_id: run for run in await self.claim(worker, *due)}
        return [claimed[run_id] for run_id in due if run_id in claimed]

    async def succeed(self, worker: WorkerId, *runs: Claimed, result: bytes | None = None) -> Settled:
        return await self.settle(worker, *(attempt.succeeded(run, self.now, self.now, result) for run in runs))

    async def fail(self, worker: WorkerId, *runs: Claimed, retry: bool = True) -> Settled:
        """Settle as a failure: retried as its definition says, or dead at once."""
        return await self.settle(worker, *(self.failure(worker, run, retry=retry) for run in runs))

    def failure(self, worker: WorkerId, run: Claimed, *, retry: bool = True) -> Settlement:
        spec = decode_spec(run.spec)
        broke = attempt.Failure(error_type="Boom", error="it broke", retry=retry)
        return attempt.failed(run, spec, worker, self.now, self.now, broke, luck=0.0)

    async def settle(self, worker: WorkerId, *settlements: Settlement) -> Settled:
        return await self.running.settle(worker, settlements, self.now)

    async def hand_back(self, worker: WorkerId, *runs: Claimed) -> frozenset[RunId]:
        return await self.running.hand_back(worker, runs, self.now)

    async def end(self, run_id: RunId, state: State) -> None:
        """Bring a due run to this end; to EXPIRED only one with a `start_within` below an hour."""
        if state is State.CANCELLED:
            await self.running.cancel(None, run_id, self.now)
        elif state is State.EXPIRED:
            self.advance(HOUR)
            assert len(await self.planning.expire(10, self.now)) == 1
        else:
            worker = await self.worker()
            run = await self.claim_one(worker, run_id)
            await (self.succeed(worker, run) if state is State.SUCCEEDED else self.fail(worker, run, retry=False))

    async def lose(self, worker: WorkerId) -> None:
        """Let the worker miss heartbeats for longer than its lease, and declare it dead; the others send theirs."""
        self.advance(LEASE + SECOND)
        for other in await self.fleet.workers():
            if other.worker_id != worker:
                await self.beat(other.worker_id)
        assert await self.expire_workers(worker) == [worker]

    async def expire_workers(self, *workers: WorkerId) -> list[WorkerId]:
        """Declare workers dead by their last heartbeats, like a caller that has waited for their lease."""
        known = await self.fleet.workers()
        return await self.fleet.expire_workers(
            {one.worker_id: one.beat_at for one in known if one.worker_id in workers}
        )

    async def recover_runs(self, limit: int = 1_000) -> Settled:
        now = self.now
        return await self.running.recover_runs(
            limit, now, lambda run, worker, since: attempt.lost(run, worker, since, now)
        )

    # ---------------------------------------------------------------------------------------------------------- looking

    async def run(self, run_id: RunId) -> RunView:
        found = await self.history.run(None, run_id)
        assert found is not None, f"run {run_id} is lost"
        return found

    async def state(self, run_id: RunId) -> State:
        return (await self.run(run_id)).state

    async def runs(self, **query: Any) -> list[RunView]:
        return await everything(lambda after: self.lists.runs(RunQuery(after=after, **query)))

    async def ledger(self, job_id: JobId) -> list[Entry]:
        return await everything(lambda after: self.lists.ledger(None, job_id, after=after))

    async def counts(self, uid: UserNumber | None = None) -> Counter[Count]:
        await self.maintenance.roll_up()
        found: Counter[Count] = Counter()
        for counter in await self.history.counters(uid):
            found[counter.what] += counter.n
        return found

    async def check_counts(self) -> None:
        """I16: open runs are those created minus those that ended or were withdrawn, and exactly these exist; open dead
        letters those that died minus those requeued or discarded. The counts of all are those of each.
        """
        counts = await self.counts()
        ended = (Count.SUCCEEDED, Count.DEAD, Count.CANCELLED, Count.EXPIRED, Count.WITHDRAWN)
        open_runs = counts[Count.CREATED] - sum(counts[what] for what in ended)
        assert open_runs == len(await self.runs(states=LIVE)), counts
        letters = await everything(lambda after: self.lists.dead_letters(None, after=after))
        assert counts[Count.DEAD] - counts[Count.REQUEUED] - counts[Count.DISCARDED] == len(letters), counts
        assert counts == await self.counts(self.uid) + await self.counts(self.stranger)


@asynccontextmanager
async def meanwhile(*others: Coroutine[Any, Any, Any]) -> AsyncIterator[list[asyncio.Task[Any]]]:
    """Let others work while the block runs; stop those that are not done by its end."""
    tasks = [asyncio.create_task(other) for other in others]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def everything(page: Callable[[str | None], Awaitable[Page[T]]], most: int = 1_000) -> list[T]:
    """Return all pages of a list, one after the other."""
    items: list[T] = []
    after: str | None = None
    for _ in range(most):
        found = await page(after)
        items += found.items
        after = found.next
        if after is None:
            return items
    raise AssertionError(f"a listing without an end: {most} pages, {len(items)} items")


def job_of(run_id: RunId) -> JobId:
    """Return the job id of a one-shot's run: the same id."""
    return JobId(run_id)


def ids(runs: Sequence[Claimed | RunView]) -> list[RunId]:
    return [run.run_id for run in runs]


def nominals(runs: Sequence[RunView]) -> list[Instant]:
    """Return the occurrences of these runs, in order."""
    return sorted(run.nominal for run in runs if run.nominal is not None)


async def in_order(store: Store) -> list[RunId]:
    """Run everything that is due, one after the other, as it becomes claimable."""
    worker, order = await store.worker(), []
    while runs := await store.claim_due(worker):
        order += ids(runs)
        await store.succeed(worker, *runs)
    return order


def only(items: Sequence[T]) -> T:
    assert len(items) == 1, items
    return items[0]
