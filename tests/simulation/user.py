"""Who makes, changes and stops jobs, asks again until there is an answer, and remembers what was answered.

Each acts for any of the users that the store knows, so that two can be at one job at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from typing import TypeVar

import msgspec
from tests.simulation.faults import STEP
from tests.simulation.journal import short
from tests.simulation.shapes import QUEUES
from tests.simulation.specs import some_spec
from tests.simulation.world import World

from oncue.domain import change
from oncue.domain.change import JobChange
from oncue.domain.errors import Conflict, StoreUnavailable
from oncue.domain.ids import NO_CLASS, JobId, RunId, UserNumber
from oncue.domain.instants import HOUR, SECOND, Duration, Instant
from oncue.domain.job import Job, JobStatus, Snapshot, Spec
from oncue.domain.policy import CatchUp, Overlap
from oncue.domain.run import RunView
from oncue.domain.schedule import Schedule
from oncue.engines.port import Cancelled, Hint, NewJob, Topic
from oncue.intake.new_jobs import hints_of

T = TypeVar("T")
NEVER_ANSWERED = 1 << 60

MOST_RECURRING = 4


@dataclass
class Window:
    """Something that holds from an answer until somebody asks for its end."""

    since: int
    until: int = NEVER_ANSWERED


@dataclass
class Edit:
    number: int
    asked: int
    answered: int = NEVER_ANSWERED


@dataclass
class Owned:
    """A job as its user knows it."""

    job: Job
    created: int = NEVER_ANSWERED
    cancel_asked: bool = False
    cancelled: int = NEVER_ANSWERED
    edits: list[Edit] = field(default_factory=list)
    pauses: list[Window] = field(default_factory=list)
    extra: dict[RunId, Instant] = field(default_factory=dict)  # run now
    told: set[RunId] = field(default_factory=set)  # running when the job was cancelled
    touched: bool = False  # paused, edited or run by hand: when its runs start depends on more than its schedule
    busy: bool = False

    @property
    def paused(self) -> bool:
        return bool(self.pauses) and self.pauses[-1].until == NEVER_ANSWERED

    @property
    def spec(self) -> Spec:
        return self.job.spec


@dataclass
class Memory:
    """What all users remember."""

    jobs: dict[JobId, Owned] = field(default_factory=dict)
    runs_cancelled: dict[RunId, int] = field(default_factory=dict)  # the answer was: will never start
    runs_told: dict[RunId, tuple[int, int]] = field(default_factory=dict)  # will stop: answered at, elapsed
    cancels_asked: set[RunId] = field(default_factory=set)
    ends: dict[RunId, RunView] = field(default_factory=dict)  # the first final view of each
    queue_pauses: dict[str, list[Window]] = field(default_factory=lambda: defaultdict(list))
    pried: list[str] = field(default_factory=list)  # what users were told of others
    queue_busy: bool = False  # of two who pause and resume at once nobody could say who was last
    resuming: bool = False


class User:
    def __init__(self, world: World, memory: Memory, name: str, seed: int) -> None:
        self.world = world
        self.memory = memory
        self.chance = Random(seed)
        self.process = world.process(name)
        self.engine = world.reached_by(self.process)
        self.acts: dict[Callable[[], Awaitable[None]], int] = {
            self.make_one_shots: 40,
            self.make_recurring: 10,
            self.cancel_run: 8,
            self.cancel_job: 3,
            self.pause: 8,
            self.resume: 8,
            self.edit: 12,
            self.run_now: 6,
            self.pause_or_resume_queue: 3,
            self.look: 20,
            self.pry: 3,
        }
        self.tidied = False
        self.process.act("user", self.run_once, world.journal)

    async def run_once(self) -> int:
        if self.world.clock.now() < self.world.storm_ends - 2 * SECOND:
            [act] = self.chance.choices(list(self.acts), list(self.acts.values()))
            await act()
        elif not self.memory.resuming and not self.tidied:
            self.memory.resuming = True
            await self.tidy()
        else:
            self.tidied = True
        return STEP * self.chance.randrange(1, 20)

    async def tidy(self) -> None:
        """What still waits for its user shall come to an end."""
        for queue in QUEUES:
            await self._resume_queue(queue)
        jobs = [owned for owned in self.memory.jobs.values() if owned.spec.schedule.recurring]
        for owned in jobs:
            while owned.busy:
                await self.process.sleep(STEP)
            if owned.paused and not owned.cancel_asked:
                await self._resume(owned)

    # -------------------------------------------------------------------------------------------------------- asking

    async def insist(self, ask: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                return await ask()
            except StoreUnavailable:
                await self.process.sleep(4 * STEP)

    async def change(
        self,
        owned: Owned,
        decide: Callable[[Snapshot], JobChange],
        done: Callable[[Snapshot], bool],
        think: int = 0,
    ) -> bool:
        """Read, decide, apply; again when the job moved on. After a lost answer the job itself tells whether it was."""
        while True:
            snap = await self.insist(lambda: self.engine.jobs.read(owned.job.uid, owned.job.job_id))
            if snap is None:
                return False
            if done(snap):
                return True
            try:
                wanted = decide(snap)
            except Conflict:
                return False
            if think:
                await self.process.sleep(think)
            if await self.insist(lambda wanted=wanted: self.engine.jobs.apply(wanted, self.world.clock.now())):
                await self.engine.signals.send([Hint(Topic.RUNS)])
                return True
            await self.process.sleep(STEP)

    def note(self, text: str) -> int:
        return self.world.journal.note(f"{self.process.name}: {text}")

    def some(self, *, recurring: bool) -> Owned | None:
        fit = [
            owned
            for owned in self.memory.jobs.values()
            if owned.spec.schedule.recurring == recurring
            and not owned.busy
            and owned.created != NEVER_ANSWERED
            and not owned.cancel_asked
        ]
        return self.chance.choice(fit) if fit else None

    # ---------------------------------------------------------------------------------------------------------- making

    async def make_one_shots(self) -> None:
        chance, now = self.chance, self.world.clock.now()
        ahead = chance.choice([0, 0, 0, chance.randrange(5_000_000), STEP * chance.randrange(100), HOUR])
        if ahead == HOUR and chance.random() < 0.6:
            ahead = 0
        schedule = Schedule(at=Instant(now + ahead)) if ahead else Schedule()
        await self._create([some_spec(chance, schedule, self.world.queues) for _ in range(chance.choice([1, 1, 2, 4]))])

    async def make_recurring(self) -> None:
        chance = self.chance
        recurring = sum(owned.spec.schedule.recurring for owned in self.memory.jobs.values())
        if recurring >= MOST_RECURRING or self.world.clock.now() > self.world.storm_ends - 10 * SECOND:
            return
        schedule = Schedule(every=Duration(chance.randrange(1, 5) * SECOND), anchor=self.world.clock.now())
        if chance.random() < 0.3:
            schedule = Schedule(cron=chance.choice(["*/2 * * * * *", "*/3 * * * * *", "1-59/5 * * * * *"]))
        schedule = msgspec.structs.replace(schedule, end_at=self.world.storm_ends)
        spec = msgspec.structs.replace(
            some_spec(chance, schedule, self.world.queues),
            overlap=chance.choice(list(Overlap)),
            catch_up=chance.choice(list(CatchUp)),
        )
        await self._create([spec])

    async def _create(self, specs: list[Spec]) -> None:
        now, new = self.world.clock.now(), []
        uid = self.chance.choices(self.world.uids, [4, 2, 1])[0]
        for spec in specs:
            job_id = JobId(self.world.new_id())
            job = Job(job_id, uid, spec, b'{"edit":0}', created_at=now, updated_at=now)
            self.memory.jobs[job_id] = Owned(job)
            if spec.schedule.recurring:
                new.append(NewJob(job, NO_CLASS, cursor=change.first_cursor(spec.schedule, now)))
            else:
                new.append(NewJob(job, NO_CLASS, run=change.only_run(job, NO_CLASS, now)))
        await self.insist(lambda: self.engine.jobs.create(new, now))
        answered = self.note(f"has made {[short(one.job.job_id) for one in new]}")
        for one in new:
            self.memory.jobs[one.job.job_id].created = answered
        await self.engine.signals.send([hint for hint in hints_of(new, self.world.clock.now()) if new[0].run])

    # -------------------------------------------------------------------------------------------------------- changing

    async def pause(self) -> None:
        owned = self.some(recurring=True)
        if owned is None or owned.paused:
            return
        owned.busy = owned.touched = True
        if await self.change(
            owned,
            lambda snap: change.pause(snap, self.world.clock.now()),
            lambda snap: snap.job.status is JobStatus.PAUSED,
        ):
            owned.pauses.append(Window(self.note(f"has paused {short(owned.job.job_id)}")))
        owned.busy = False

    async def resume(self) -> None:
        owned = self.some(recurring=True)
        if owned is not None and owned.paused:
            await self._resume(owned)

    async def _resume(self, owned: Owned) -> None:
        owned.busy = True
        missed = self.chance.choice(list(CatchUp))
        owned.pauses[-1].until = self.note(f"resumes {short(owned.job.job_id)}, {missed} of what was missed")
        await self.change(
            owned,
            lambda snap: change.resume(snap, missed, self.world.clock.now()),
            lambda snap: snap.job.status is not JobStatus.PAUSED,
        )
        owned.busy = False

    async def edit(self) -> None:
        owned = self.some(recurring=True)
        if owned is None:
            return
        owned.touched = True
        edit = Edit(len(owned.edits) + 1, self.note(f"edits {short(owned.job.job_id)}"))
        owned.edits.append(edit)
        payload = msgspec.json.encode({"edit": edit.number})
        now = self.world.clock.now
        mine = False  # whether a lost answer may have been ours

        def decide(snap: Snapshot) -> JobChange:
            return change.edit(snap, snap.job.spec, payload, snap.class_id, now())

        def done(snap: Snapshot) -> bool:
            nonlocal mine
            mine = mine or snap.job.payload == payload
            return mine

        if await self.change(owned, decide, done, think=STEP * self.chance.choice([0, 0, 1, 10, 20])):
            edit.answered = self.note(f"edit {edit.number} of {short(owned.job.job_id)} is done")

    async def run_now(self) -> None:
        owned = self.some(recurring=True)
        if owned is None:
            return
        owned.touched = True
        run_id = RunId(self.world.new_id())
        owned.extra[run_id] = self.world.clock.now()
        snap = await self.insist(lambda: self.engine.jobs.read(owned.job.uid, owned.job.job_id))
        try:
            wanted = change.run_now(snap, run_id, self.world.clock.now())
        except Conflict:
            return
        await self.insist(lambda: self.engine.jobs.apply(wanted, self.world.clock.now()))
        await self.engine.signals.send([Hint(Topic.RUNS, due=owned.extra[run_id])])

    async def cancel_run(self) -> None:
        runs = [(start.run_id, start.job_id) for start in self.world.journal.starts[-20:]]
        one_shots = [job_id for job_id, owned in self.memory.jobs.items() if not owned.spec.schedule.recurring]
        runs += [(RunId(job_id), job_id) for job_id in one_shots[-10:]]
        if not runs:
            return
        run_id, job_id = self.chance.choice(runs)
        self.memory.cancels_asked.add(run_id)
        answer: Cancelled | None = await self.insist(
            lambda: self.engine.running.cancel(self.memory.jobs[job_id].job.uid, run_id, self.world.clock.now())
        )
        if answer is None:
            return
        answered = self.note(
            f"has cancelled run {short(run_id)}: {answer.stopped and 'stopped'} {answer.told and 'told'}"
        )
        if answer.stopped or answer.final is not None:
            self.memory.runs_cancelled.setdefault(run_id, answered)
        for told, _ in answer.told:
            self.memory.runs_told.setdefault(told, (answered, self.world.clock.monotonic()))
        await self._tell(answer)

    async def cancel_job(self) -> None:
        owned = self.some(recurring=self.chance.random() < 0.7)
        if owned is None:
            return
        owned.cancel_asked = True
        answer: Cancelled | None = await self.insist(
            lambda: self.engine.jobs.cancel(owned.job.uid, owned.job.job_id, self.world.clock.now())
        )
        if answer is not None:
            owned.told |= {run_id for run_id, _ in answer.told}
            owned.cancelled = self.note(f"has cancelled job {short(owned.job.job_id)}")
            await self._tell(answer)

    async def _tell(self, answer: Cancelled) -> None:
        hints = [Hint(Topic.CANCELS, target=str(worker_id)) for _, worker_id in answer.told]
        await self.engine.signals.send([*hints, Hint(Topic.RUNS)] if answer.stopped else hints)

    async def pause_or_resume_queue(self) -> None:
        queue = "side"
        windows = self.memory.queue_pauses[queue]
        if self.memory.queue_busy:
            return
        if windows and windows[-1].until == NEVER_ANSWERED:
            await self._resume_queue(queue)
        else:
            self.memory.queue_busy = True
            await self.insist(lambda: self.engine.fleet.pause_queue(queue, self.world.clock.now()))
            windows.append(Window(self.note(f"has paused the queue {queue}")))
            self.memory.queue_busy = False

    async def _resume_queue(self, queue: str) -> None:
        while self.memory.queue_busy:
            await self.process.sleep(STEP)
        self.memory.queue_busy = True
        asked = self.note(f"resumes the queue {queue}")
        for window in self.memory.queue_pauses[queue]:
            window.until = min(window.until, asked)
        await self.insist(lambda: self.engine.fleet.resume_queue(queue, self.world.clock.now()))
        await self.engine.signals.send([Hint(Topic.RUNS)])
        self.memory.queue_busy = False

    # --------------------------------------------------------------------------------------------------------- looking

    async def look(self) -> None:
        """The first final view of a run is the one that has to stay."""
        starts = self.world.journal.starts
        for start in self.chance.sample(starts, min(5, len(starts))):
            uid = self.memory.jobs[start.job_id].job.uid
            view = await self.insist(lambda uid=uid, start=start: self.engine.history.run(uid, start.run_id))
            if view is not None and view.state.final:
                self.memory.ends.setdefault(start.run_id, view)

    async def pry(self) -> None:
        """Into what is another's."""
        starts = self.world.journal.starts
        if not starts:
            return
        start = self.chance.choice(starts)
        owner = self.memory.jobs[start.job_id].job.uid
        uid: UserNumber = self.chance.choice([uid for uid in self.world.uids if uid != owner])
        seen = await self.insist(lambda: self.engine.history.run(uid, start.run_id))
        stopped = await self.insist(lambda: self.engine.jobs.cancel(uid, start.job_id, self.world.clock.now()))
        if seen is not None or stopped is not None:
            self.memory.pried.append(f"user {uid} was told of run {short(start.run_id)}, which is user {owner}'s")
