"""Who waited though there was room: looked for in the store itself while time passes in a calm world."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

from tests.simulation.faults import STEP, ask
from tests.simulation.journal import short
from tests.simulation.sharing import rank

from oncue.domain.ids import ClassId, RunId, UserNumber, WorkerId
from oncue.domain.instants import Instant
from oncue.domain.job import decode_spec
from oncue.domain.placement import ClassKey, Priority, Resources, mismatch
from oncue.domain.policy import expires_at
from oncue.domain.run import Peeked, RunView, State
from oncue.engines.port import RunQuery
from oncue.services.capacity import MOST_FOR_ONE
from oncue.services.choosing import KEEP_AFTER
from oncue.services.fair_share import RECENTLY
from oncue.services.prefetch import LONG_AGO, POLL, SWEEP

if TYPE_CHECKING:
    from tests.simulation.shapes import Shape
    from tests.simulation.world import World

# Until it has looked again; and until everybody has acted, though time goes on meanwhile now and then.
SOON = POLL + 3 * STEP
EVERY = 2 * STEP
MANY = 10_000
RUNNING = frozenset({State.RUNNING})


class Room:
    """What is left of a worker by the store's account: what it runs, and the classes of that."""

    def __init__(self, shape: Shape, going: Sequence[RunView], classes: dict[ClassId, ClassKey]) -> None:
        self.shape = shape
        sizes = [classes[run.class_id].size for run in going]
        offered = shape.offer.resources.size_class()
        self.left = Resources(
            offered.cpu_milli - sum(size.cpu_milli for size in sizes),
            offered.memory_mb - sum(size.memory_mb for size in sizes),
            offered.slots - sum(size.slots for size in sizes),
        )
        self.held: Counter[UserNumber] = Counter()
        for run, size in zip(going, sizes, strict=True):
            self.held[run.uid] += size.slots

    def fits(self, key: ClassKey) -> bool:
        size, left = key.size, self.left
        reserved = self.shape.reserved_from(key.priority, size)
        return (
            size.slots <= left.slots - reserved
            and (not size.cpu_milli or size.cpu_milli <= left.cpu_milli)
            and (not size.memory_mb or size.memory_mb <= left.memory_mb)
        )


class Census:
    def __init__(self, world: World) -> None:
        self.problems: list[str] = []
        self._world = world
        self._since: dict[tuple[RunId, WorkerId], Instant] = {}
        self._lately: dict[RunId, tuple[Instant, Peeked]] = {}
        self._others_until: dict[WorkerId, Instant] = {}  # more than one user has waited for it lately
        self._told: set[RunId] = set()
        self._next = LONG_AGO

    def look(self) -> None:
        """Every other time, which is often enough."""
        world, now = self._world, self._world.clock.now()
        if now < self._next:
            return
        self._next = Instant(now + EVERY)
        classes = ask(world.engine.jobs.classes())
        paused = ask(world.engine.fleet.paused_queues())
        claimable = [class_id for class_id, key in classes.items() if key.queue not in paused]
        due: list[Peeked] = ask(world.engine.running.peek(claimable, LONG_AGO, now, MANY))
        since: dict[tuple[RunId, WorkerId], Instant] = {}
        going: list[RunView] = world.all_runs(RunQuery(states=RUNNING)) if due else []
        believed = self._believed(due, now)
        for crewed in world.crews if due else ():
            able = [run for run in due if mismatch(classes[run.class_id], crewed.shape.offer) is None]
            known = [run for run in believed if mismatch(classes[run.class_id], crewed.shape.offer) is None]
            mine = [run for run in going if run.worker_id == crewed.worker_id]
            if len({run.uid for run in able}) > 1:
                self._others_until[crewed.worker_id] = Instant(now + RECENTLY + SOON)
            others = now < self._others_until.get(crewed.worker_id, LONG_AGO)
            room = Room(crewed.shape, mine, classes)
            for run in _could_start(able, known, room, classes, now, others=others):
                pair = run.run_id, crewed.worker_id
                since[pair] = self._since.get(pair, now)
                self._judge(run, crewed.worker_id, now - since[pair])
        self._since = since

    def _believed(self, due: Sequence[Peeked], now: Instant) -> list[Peeked]:
        """What waits as far as any worker knows: also what has gone since its last sweep, claimed before we looked."""
        claims = takewhile(lambda claim: claim.now >= now - SWEEP, reversed(self._world.journal.last_claims))
        gone = [(claim.now, claim.run) for claim in claims]
        self._lately |= {run.run_id: (at, Peeked(run.run_id, run.due, run.class_id, run.uid)) for at, run in gone}
        self._lately |= {run.run_id: (now, run) for run in due}
        self._lately = {run_id: seen for run_id, seen in self._lately.items() if seen[0] >= now - SWEEP}
        return [run for _, run in self._lately.values()]

    def _judge(self, run: Peeked, worker_id: WorkerId, waited: int) -> None:
        if waited > SOON and run.run_id not in self._told and not self._has_expired(run.run_id):
            self._told.add(run.run_id)
            line = self._world.journal.note(f"run {short(run.run_id)} waits, and {short(worker_id)} has room")
            self.problems.append(f"run {short(run.run_id)} waited though {short(worker_id)} had room: see line {line}")

    def _has_expired(self, run_id: RunId) -> bool:
        """And will be ended as such; until then it is seen as waiting."""
        view: RunView = ask(self._world.engine.history.run(None, run_id))
        assert view.spec is not None
        until = expires_at(decode_spec(view.spec).start_within, view.wanted)
        return until is not None and until < self._world.clock.now() and view.token == 0


def _could_start(
    able: Sequence[Peeked],
    known: Sequence[Peeked],
    room: Room,
    classes: dict[ClassId, ClassKey],
    now: Instant,
    *,
    others: bool,
) -> list[Peeked]:
    """Those that this worker has room for which is kept for nobody else."""
    fitting = [run for run in able if room.fits(classes[run.class_id])]
    long_ago = {priority: now - length for priority, length in KEEP_AFTER.items()}
    patient = [run for run in known if run.due <= long_ago[classes[run.class_id].priority]]
    most = MOST_FOR_ONE * (room.shape.places - room.shape.reserved)
    return [
        run
        for run in fitting
        if not (others and room.held[run.uid] >= most) and not any(_goes_first(big, run, classes) for big in patient)
    ]


def _goes_first(big: Peeked, small: Peeked, classes: dict[ClassId, ClassKey]) -> bool:
    """Room is kept for what is big and has waited long, from whoever is behind it and takes of the same."""
    one, other = classes[big.class_id], classes[small.class_id]
    behind = rank(one.priority, big.due) < rank(other.priority, small.due) or one.priority is Priority.HIGH
    return (behind and big.run_id != small.run_id) and (
        one.size.slots > 1
        or bool(one.size.cpu_milli and other.size.cpu_milli)
        or bool(one.size.memory_mb and other.size.memory_mb)
    )
