"""Play the fleet: workers that claim runs, take their time over them and settle them, by the engine's own verbs.

The same step plays the hours before the demo, by a clock that jumps, and then goes on by the real one. Nothing is
really done, so that one process is enough.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field

from examples.demo.fleet import MACHINES, SILENT, WORK, Machine, Trouble, Work

from oncue import __version__
from oncue.domain import attempt
from oncue.domain.ids import ClassId, RunId, WorkerId
from oncue.domain.instants import HOUR, MILLISECOND, MINUTE, SECOND, Duration, Instant, rfc3339
from oncue.domain.job import decode_spec
from oncue.domain.load import Load, show_load
from oncue.domain.placement import ClassKey, Offer, Resources, mismatch, show_offer
from oncue.domain.run import Claimed, Settlement
from oncue.domain.run_parts import PARTS
from oncue.engines.port import Member, Task, Worker
from oncue_conformance.store import Store

BEAT = Duration(3 * SECOND)
LONGEST_STEP = Duration(30 * SECOND)
MOST_DUE = 300  # runs looked at in one step
OUTAGE = (3.2, 3.0)  # hours ago: nothing planned or ran, and some occurrences are late or missed since
TRACE = """Traceback (most recent call last):
  File "/srv/tasks/{file}", line {line}, in {function}
    {code}
{kind}: {text}
"""


@dataclass
class Active:
    """An attempt: what it does, and when it ends."""

    run: Claimed
    work: Work
    ends_at: Instant
    trouble: Trouble | None
    payload: dict[str, object]


@dataclass
class Hand:
    """One worker."""

    worker: Worker
    machine: Machine
    offer: Offer
    classes: list[ClassId] = field(default_factory=list)
    active: dict[RunId, Active] = field(default_factory=dict)
    drained: bool = False

    @property
    def id(self) -> WorkerId:
        return self.worker.worker_id

    @property
    def free(self) -> int:
        return 0 if self.drained else self.machine.slots - len(self.active)

    def load(self) -> bytes:
        used = len(self.active)
        return show_load(Load({"loop": self.machine.slots}, {"loop": used}, used * 0.04, running=used))


class World:
    def __init__(self, store: Store, opens_at: Instant) -> None:
        self.store = store
        self.opens_at = opens_at  # when the demo begins; history is before
        self.chance = random.Random(7)
        self.hands: list[Hand] = []
        self._classes: dict[ClassId, ClassKey] = {}
        self._paused: frozenset[ClassId] = frozenset()
        self._beat_at = Instant(0)

    # ------------------------------------------------------------------------------------------------------ the fleet

    async def hire(self) -> None:
        """Register all tasks and workers."""
        store = self.store
        await store.fleet.announce([Task(name, _schema(work)) for name, work in WORK.items()], store.now)
        for machine in MACHINES:
            offer = Offer(
                frozenset(machine.tasks),
                frozenset(machine.queues),
                frozenset(machine.labels),
                Resources(4_000, 8_192, machine.slots),
                version=__version__,
            )
            lease = HOUR if machine.name == SILENT else Duration(15 * SECOND)
            started = Instant(store.now - self.chance.randrange(HOUR))
            worker_id = WorkerId(store.new_id())
            worker = Worker(
                worker_id,
                machine.name,
                f"{machine.name}.example.org",
                lease,
                started,
                store.now,
                info=show_offer(offer),
            )
            await store.fleet.register(worker, store.now)
            self.hands.append(Hand(worker, machine, offer))

    async def beat(self) -> None:
        """Send heartbeats of all workers but the silent one, which falls silent an hour before the demo."""
        store, past = self.store, self.store.now < self.opens_at
        self._beat_at = Instant(store.now + (5 * MINUTE if past else BEAT))  # nobody judges workers of the past
        await self._look()
        for hand in self.hands:
            if hand.machine.name == SILENT and store.now > self.opens_at - HOUR - MINUTE:
                hand.drained = True
                continue
            beat = await store.fleet.beat(hand.id, store.now, classes=hand.classes, load=hand.load())
            hand.drained = beat is None or beat.drain_at is not None

    async def tell(self) -> None:
        """Send the processes' heartbeats: each worker has one."""
        store = self.store
        for hand in self.hands:
            if hand.machine.name != SILENT:
                known = hand.worker
                await store.members.beat(
                    Member(
                        known.worker_id,
                        "worker",
                        __version__,
                        store.engine.schema,
                        known.host,
                        known.started_at,
                        store.now,
                    ),
                    store.now,
                )

    async def _look(self) -> None:
        """See which kinds of work there are, and who can do them."""
        store = self.store
        known, paused = await store.jobs.classes(), await store.fleet.paused_queues()
        self._paused = frozenset(one for one, key in known.items() if key.queue in paused)
        if known != self._classes:
            self._classes = known
            for hand in self.hands:
                hand.classes = [one for one, key in known.items() if mismatch(key, hand.offer) is None]

    # ------------------------------------------------------------------------------------------------------- its work

    async def step(self) -> None:
        """Do what is to be done now: end attempts, and start those of due runs."""
        if self.store.now >= self._beat_at:
            await self.beat()
        for hand in self.hands:
            await self._end(hand)
        await self._start()

    async def _start(self) -> None:
        """Give each due run to one of the workers that can take it."""
        store, given = self.store, dict[WorkerId, list[RunId]]()
        wanted = [one for one in self._classes if one not in self._paused]
        for due in await store.running.peek(wanted, Instant(0), store.now, MOST_DUE):
            able = [
                hand for hand in self.hands if due.class_id in hand.classes and hand.free > len(given.get(hand.id, ()))
            ]
            if able:
                given.setdefault(self.chance.choice(able).id, []).append(due.run_id)
        for hand in self.hands:
            if hand.id in given:
                for run in await store.claim(hand.id, *given[hand.id]):
                    hand.active[run.run_id] = active = self._begun(run)
                    await self._log(run, active, 0, "INFO")

    def _begun(self, run: Claimed) -> Active:
        work = WORK[decode_spec(run.spec).task]
        payload = json.loads(run.payload or b"{}")
        trouble = self._trouble(work, payload)
        took = self.chance.uniform(*work.seconds) * (0.6 if trouble and trouble.kind != "TimeoutError" else 1)
        return Active(run, work, Instant(self.store.now + int(took * SECOND)), trouble, payload)

    def _trouble(self, work: Work, payload: dict[str, object]) -> Trouble | None:
        if "to" in payload and "@" not in str(payload["to"]):
            return Trouble("ValueError", f"'{payload['to']}' is no e-mail address", 1, "mail.py:address", retry=False)
        hours_ago = (self.opens_at - self.store.now) / HOUR
        for one in work.troubles:
            now = one.until <= hours_ago <= one.since or (hours_ago < 0 and not one.until)
            if now and self.chance.random() < one.share:
                return one
        return None

    async def _end(self, hand: Hand) -> None:
        """Settle what is over or cancelled. Others say how far they are."""
        if not hand.active:
            return
        store, worker = self.store, hand.id
        past = store.now < self.opens_at  # in which nobody cancelled what ran
        stopped = set() if past else {one.run_id for one in await store.fleet.cancel_requests(worker)}
        for run_id, active in list(hand.active.items()):
            if run_id in stopped:
                await store.settle(worker, attempt.cancelled(active.run, worker, active.run.claimed_at, store.now))
            elif active.ends_at <= store.now:
                await self._settle(worker, active)
            else:
                await self._progress(worker, active)
                continue
            del hand.active[run_id]

    async def _settle(self, worker: WorkerId, active: Active) -> None:
        run, now, trouble = active.run, self.store.now, active.trouble
        if trouble is None:
            await self._log(run, active, 1, "INFO")
            result = json.dumps({"seconds": round((now - run.claimed_at) / SECOND, 1)}).encode()
            await self.store.settle(worker, attempt.succeeded(run, run.claimed_at, now, result))
        else:
            await self._log(run, active, 1, "ERROR")
            await self.store.settle(worker, self._failed(worker, run, trouble))

    def _failed(self, worker: WorkerId, run: Claimed, trouble: Trouble) -> Settlement:
        file, _, function = trouble.where.partition(":")
        trace = TRACE.format(file=file, line=84, function=function, code="return answer.value()", **vars(trouble))
        broke = attempt.Failure(
            error_type=trouble.kind, error=trouble.text, retry=trouble.retry, frame=trouble.where, traceback=trace
        )
        spec, luck = decode_spec(run.spec), self.chance.random()
        return attempt.failed(run, spec, worker, run.claimed_at, self.store.now, broke, luck)

    async def _progress(self, worker: WorkerId, active: Active) -> None:
        if not active.work.steps or self.store.now < self.opens_at - MINUTE:
            return  # nobody sees the progress of runs that are over
        took = active.ends_at - active.run.claimed_at
        done = int(active.work.steps * (self.store.now - active.run.claimed_at) / took)
        said = json.dumps({"done": done, "total": active.work.steps}).encode()
        await self.store.running.save(worker, active.run, progress=said)

    async def _log(self, run: Claimed, active: Active, part: int, level: str) -> None:
        """Write the first line at the start, and the others at the end."""
        says = active.work.says[:1] if part == 0 else active.work.says[1:]
        if level == "ERROR" and active.trouble is not None:
            says = (f"{active.trouble.kind}: {active.trouble.text}",)
        now = self.store.now
        lines = [f"{rfc3339(now)} {level} {says_one.format_map(active.payload)}\n" for says_one in says]
        if lines:
            await self.store.history.append_log(run.run_id, run.token * PARTS + part, "".join(lines).encode(), now)

    # ---------------------------------------------------------------------------------------------------- its history

    async def live_until(self, end: Instant) -> None:
        """Let the clock jump from one thing that happens to the next, and do what a scheduler and the workers do."""
        store = self.store
        while store.now < end:
            if OUTAGE[1] < (self.opens_at - store.now) / HOUR < OUTAGE[0]:
                store.advance(MINUTE)
                continue
            next_at = await self._plan()
            await self.step()
            ends = [active.ends_at for hand in self.hands for active in hand.active.values()]
            upcoming = min([*ends, next_at, Instant(store.now + LONGEST_STEP), end])
            store.advance(max(upcoming - store.now, SECOND) + self._lag())
        await store.maintenance.roll_up()

    def _lag(self) -> int:
        """How much later than it could the fleet notices: a few milliseconds, seldom more."""
        return int(self.chance.lognormvariate(1.2, 0.9) * MILLISECOND)

    async def _plan(self) -> Instant:
        store = self.store
        while (planned := await store.plan()).jobs:
            pass
        await store.decide_overlaps()
        return planned.next_at or Instant(store.now + LONGEST_STEP)


def _schema(work: Work) -> bytes:
    properties = {name: {"type": kind} for name, kind in work.arguments.items()}
    return json.dumps({"type": "object", "properties": properties, "required": list(properties)}).encode()
