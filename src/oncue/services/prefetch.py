"""Prefetch: read the runs of the next half second into memory, so that the worker can claim each at its due instant.

A read reserves nothing. Three kinds of reads complement each other: a window that moves with time and reads every run
once; a read where a hint points; and once a second, or more often where hints do not arrive, a sweep over all runs that
are due and still wait, which finds what the other two missed. When work is late there is a fourth: a few runs of every
user in turn, however many one user has.

While there are few runs, the sweep reads beyond the next sweep and is the window, too: a worker without work asks the
store twice a second instead of eight times. While nothing is late, workers that take the same classes share the sweeps:
together they come twice a second, each in its turn, so a missed run is found as soon, and many workers cost little.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence

from oncue.clock import Clock
from oncue.domain.ids import ClassId, RunId
from oncue.domain.instants import MICROSECOND, MILLISECOND, MINUTE, NEVER, SECOND, Duration, Instant
from oncue.domain.placement import Offer, Priority, mismatch
from oncue.domain.run import Peeked
from oncue.engines.known_classes import KnownClasses
from oncue.engines.port import Engine
from oncue.log import log
from oncue.metrics.numbers import SILENT, Numbers
from oncue.metrics.table import FOUND
from oncue.services.capacity import Capacity
from oncue.services.choosing import Choice, ClassQueue, DueRun, Peers
from oncue.services.fair_share import FairShare
from oncue.tasks import Tasks

AHEAD = Duration(500 * MILLISECOND)
POLL = Duration(250 * MILLISECOND)  # twice per window, so that a slow read leaves no gap
FEW = 100  # known runs, up to which the sweep reads as far ahead as this:
BEYOND_THE_SWEEP = Duration(SECOND)  # the next one, which may come late
SWEEP = Duration(SECOND)
SHARED_SWEEP = Duration(5 * SECOND)  # at most, of a worker without work that shares the sweeps with others
SWEEP_WITHOUT_HINTS = Duration(300 * MILLISECOND)  # a run that is due when it is created starts within half a second
SPACING = Duration(10 * MILLISECOND)  # between reads, however many hints come
LIMIT = 10_000  # runs of each class in one read
LATE = Duration(SECOND)  # from this lateness on users take turns
FAIR_CLAIM = 300  # runs in one claim while users take turns: no user waits for a thousand runs of another
PREEMPT_DELAY = Duration(100 * MILLISECOND)  # before a high-priority run preempts: another worker may have a slot
PASS_ON_DELAY = Duration(20 * MILLISECOND)  # without room, before a due run is passed on to other workers
PASS_ON_PAUSE = Duration(100 * MILLISECOND)
LEAVE_ALONE = Duration(MINUTE)  # how long a run that this worker cannot read is ignored
MOST_LEFT_ALONE = 200_000  # some 40 MB; more than a worker could claim and return to the queue in that time
LONG_AGO = Instant(0)


class Prefetch:
    def __init__(self, engine: Engine, clock: Clock, tasks: Tasks, offer: Offer, numbers: Numbers = SILENT) -> None:
        self._engine = engine
        self._numbers = numbers
        self._clock = clock
        self._kinds = {task.name: task.takes for task in tasks}
        self._classes = KnownClasses(engine.jobs, clock, lambda key: mismatch(key, offer) is None)
        self._open: tuple[ClassId, ...] = ()  # of these, those whose queue is not paused
        self._paused: frozenset[str] = frozenset()
        self._class_queues: dict[
            ClassId, ClassQueue
        ] = {}  # of the classes with known runs, or with runs still to be read
        self._seen = LONG_AGO  # of all other classes, every run due until then has been read once
        self._known: dict[RunId, DueRun] = {}
        self._left_alone: dict[RunId, Instant] = {}  # and until when, by the monotonic clock; in that order
        self._order = itertools.count()
        self._rounds = FairShare(engine, clock)
        self._sweep_every = SWEEP if engine.capabilities.hints else SWEEP_WITHOUT_HINTS
        self._took = True
        self._crowded_at = LONG_AGO
        self.peers = Peers()
        self._asked = NEVER  # the instant a hint points to
        self._class_came = False  # a hint is about a class that is not known yet
        self._pass_on_at = LONG_AGO
        self._look_at = self._sweep_at = self._rest_until = self._looked_at = LONG_AGO

    @property
    def classes(self) -> tuple[ClassId, ...]:
        """The classes this worker can run."""
        return tuple(self._classes.known)

    @property
    def knows(self) -> bool:
        """Whether there are runs to claim, now or soon."""
        return bool(self._known)

    def ask(self, due: Instant | None, classes: Iterable[ClassId] = ()) -> None:
        """Read soon from this instant on, because a run is due then (None: any run may be), of any class or of these.

        The sweep reads which classes there are; a hint only has them read if it may be about one that is new.
        """
        self._asked = min(self._asked, LONG_AGO if due is None else Instant(due - MICROSECOND))
        self._class_came |= not classes or any(map(self._classes.is_new, classes))
        self._sweep_soon()

    def learn(self, runs: Sequence[Peeked]) -> None:
        """Take in runs that a hint names, as if they had been read. The claim finds out what is not so."""
        known, fresh = self._classes.known, list[Peeked]()
        for run in runs:
            same = self._known.get(run.run_id)
            if run.class_id not in known:
                if self._classes.is_new(run.class_id):
                    self.ask(run.due, (run.class_id,))
            elif same is not None:
                if same.due != run.due:  # one of them is out of date
                    self.ask(min(same.due, run.due), (run.class_id,))
            elif self._class_queue(run.class_id).hungry:
                fresh.append(run)
            else:  # there is enough to do, but not of this user perhaps: the look gives every user a turn
                self.ask(run.due, (run.class_id,))
        self._remember(fresh, "hint")
        if len(self._known) > FEW:
            self._sweep_soon()

    def _sweep_soon(self) -> None:
        """There may be much to do: sweep as if there were no other workers."""
        self._sweep_at = min(self._sweep_at, Instant(self._clock.now() + self._sweep_every))
        self._look_at = min(self._look_at, Instant(self._sweep_at + POLL))

    def look_afresh(self) -> None:
        """Read everything that is due at the next look, however short ago the last one was."""
        self._look_at = self._sweep_at = self._rest_until = LONG_AGO

    def leave_alone(self, run_id: RunId) -> None:
        """Ignore a run of a newer oncue that this version cannot read: it is for workers of that version."""
        if not self._left_alone:
            log.warning(
                "Some runs were created by a newer oncue; workers of that version execute them",
                kind="newer_runs",
                run_id=str(run_id),
            )
        self._left_alone.pop(run_id, None)
        if len(self._left_alone) >= MOST_LEFT_ALONE:
            del self._left_alone[next(iter(self._left_alone))]
        self._left_alone[run_id] = Instant(self._clock.monotonic() + LEAVE_ALONE)

    # ---------------------------------------------------------------------------------------------------------- reading

    async def look(self) -> None:
        """Read missing runs, if it is time and the worker needs them."""
        now = self._clock.now()
        if now < self._looked_at - SECOND:  # it was set back: what was noted for a time would wait for that
            self.look_afresh()
            self._crowded_at = self._pass_on_at = self._rounds.rest_until = LONG_AGO
        self._looked_at = now
        if now < self._rest_until:
            return
        self._forget_left_alone()
        asked, self._asked = self._asked, NEVER
        try:
            if now >= self._sweep_at:
                await self._sweep(now)
            if asked < now + AHEAD:
                if asked == LONG_AGO or self._class_came:
                    await self._refresh(queues=asked == LONG_AGO)
                await self._read("hint", self._hungry(), asked, Instant(now + AHEAD))
            self._rounds.one_more |= asked < now
            poll = now >= self._look_at
            if poll or self._behind(now):
                await self._move_on(Instant(now + AHEAD))
                self._look_at = Instant(now + POLL)
            if poll or (self._rounds.one_more and now >= self._rounds.rest_until):
                await self._take_turns(now)
        except BaseException:
            self._asked = min(self._asked, asked)
            raise
        self._rest_until = Instant(now + SPACING)

    def _hungry(self) -> Sequence[ClassId]:
        return self._but(
            {class_queue.class_id for class_queue in self._class_queues.values() if not class_queue.hungry}
        )

    def _but(self, some: set[ClassId]) -> Sequence[ClassId]:
        """All classes that runs may be claimed of, without these."""
        return [class_id for class_id in self._open if class_id not in some] if some else self._open

    def _behind(self, now: Instant) -> bool:
        """Whether some due run may not have been read, and the worker needs more."""
        rest = self._seen < now and bool(self._open)
        return rest or any(class_queue.behind(now) for class_queue in self._class_queues.values())

    async def _refresh(self, *, queues: bool = True) -> None:
        """Read changes of classes and paused queues. A class appears with the first job that needs it, and may go."""
        known, paused = self._classes.known, self._paused
        await self._classes.read_new()
        await self._classes.check()
        if queues:
            paused = frozenset(await self._engine.fleet.paused_queues())
        self._class_came = False
        came, gone = self._classes.changes()
        if paused != self._paused:
            came += [class_id for class_id, key in known.items() if key.queue in self._paused - paused]
            self._paused = paused
        elif not came and not gone:
            return
        self._open = tuple(class_id for class_id, key in known.items() if key.queue not in paused)
        for class_queue in self._class_queues.values():
            class_queue.paused = class_queue.queue in paused
        if self._seen > LONG_AGO:
            for class_id in came:
                self._class_queue(class_id).seen = LONG_AGO

    def _class_queue(self, class_id: ClassId) -> ClassQueue:
        class_queue = self._class_queues.get(class_id)
        if class_queue is None:
            key = self._classes.known[class_id]
            class_queue = self._class_queues[class_id] = ClassQueue(class_id, key, self._kinds[key.task])
            class_queue.seen, class_queue.paused = self._seen, key.queue in self._paused
        return class_queue

    async def _sweep(self, now: Instant) -> None:
        """Read all due runs, and forget known ones not among them: they were claimed, cancelled or postponed."""
        idle = not self._known and not self._paused  # then queues matter only if something is found: `claim` decides
        await self._refresh(queues=not idle)
        few = len(self._known) <= FEW
        class_queues = [class_queue for class_queue in self._class_queues.values() if class_queue.hungry]
        unread = {class_queue.class_id for class_queue in self._class_queues.values() if not class_queue.hungry}
        next_sweep = self._next_sweep(now)
        until = Instant(next_sweep + BEYOND_THE_SWEEP) if few else now
        short, found = await self._read("sweep", self._hungry(), LONG_AGO, until, late_at=now)
        there = {run.run_id for run in found}
        for class_queue in class_queues:
            if class_queue.class_id not in short:
                self._forget(class_queue, but=there)
        if idle and found:
            await self._refresh()
        if few:
            self._have_read(until, short, unread)
        next_sweep = min(next_sweep, self._next_sweep(now))  # sooner, if it is late
        if few and not self._is_late(now):
            self._look_at = Instant(next_sweep + POLL)  # the next sweep comes first
        self._drop_idle_lines()
        self._sweep_at = next_sweep

    def _next_sweep(self, now: Instant) -> Instant:
        """Return when to sweep again. While nothing is late, workers take turns with their like by the store's time."""
        alike, every = self.peers.alike, self._sweep_every
        shared = Duration(min(alike * SWEEP // 2, SHARED_SWEEP))
        if shared <= every or every != SWEEP or self._is_late(now):
            return Instant(now + every)
        my_turn = shared * self.peers.alike_before // alike
        return Instant(now + shared - (now - my_turn) % shared)

    def _is_late(self, now: Instant) -> bool:
        """Whether there is more to do than the workers keep up with. What is just due may be on its way to another."""
        return len(self._known) > FEW or any(run.due <= now - POLL for run in self._known.values())

    def _drop_idle_lines(self) -> None:
        """Drop empty class queues, so that a class costs something only while one of its runs is known."""
        for class_queue in list(self._class_queues.values()):
            if class_queue.runs.empty and class_queue.seen == self._seen:
                del self._class_queues[class_queue.class_id]

    async def _move_on(self, until: Instant) -> None:
        """Read the time range not read yet; nearly always the same for every class, and then in one read."""
        apart = {
            class_queue.class_id: class_queue
            for class_queue in self._class_queues.values()
            if not class_queue.hungry or class_queue.seen != self._seen
        }
        behind = [class_queue for class_queue in apart.values() if class_queue.hungry]
        for seen in {min(class_queue.seen, until) for class_queue in behind}:
            class_queues = [class_queue for class_queue in behind if min(class_queue.seen, until) == seen]
            short, _ = await self._read("window", [one.class_id for one in class_queues], seen, until)
            for class_queue in class_queues:
                class_queue.seen = short.get(class_queue.class_id, until)
        short, _ = await self._read("window", self._but(set(apart)), min(self._seen, until), until)
        self._have_read(until, short, apart)

    def _have_read(self, until: Instant, short: Mapping[ClassId, Instant], but: Container[ClassId]) -> None:
        """Note that all classes were read until then; the `short` ones less far, and some not."""
        for class_queue in self._class_queues.values():
            if class_queue.class_id not in but:
                class_queue.seen = short.get(class_queue.class_id, until)
        self._seen = until

    async def _take_turns(self, now: Instant) -> None:
        """Read a round of users' turns, if work is late."""
        heads = [
            head
            for class_queue in self._class_queues.values()
            if (head := class_queue.head(self._known, now)) is not None
        ]
        if not any(head.due < now - LATE for head in heads):
            self._rounds.stop()
            return
        found = await self._rounds.read(self._open, now, {head.uid for head in heads})
        self._remember(found, "turn")
        self._rounds.line_up([self._known[run.run_id] for run in found if run.run_id not in self._left_alone])

    async def _read(
        self, by: str, classes: Sequence[ClassId], after: Instant, until: Instant, late_at: Instant = NEVER
    ) -> tuple[dict[ClassId, Instant], list[Peeked]]:
        """Read runs into memory. Return how far the classes were read that have more than the limit, and the runs.

        What a sweep finds before it is due was not missed by the window: the sweep is the window.
        """
        if not classes:
            return {}, []
        found = await self._engine.running.peek(classes, after, until, LIMIT)
        self._remember([run for run in found if run.due <= late_at], by)
        self._remember([run for run in found if run.due > late_at], "window")
        counts = Counter(run.class_id for run in found)
        if max(counts.values(), default=0) < LIMIT:
            return {}, found
        last = {run.class_id: Instant(run.due - MICROSECOND) for run in found}
        short = {class_id: last[class_id] for class_id, n in counts.items() if n >= LIMIT}
        for class_id, at in short.items():
            class_queue = self._class_queue(class_id)
            class_queue.seen = min(class_queue.seen, at)  # whatever it was read for: the window continues from there
        return short, found

    def _remember(self, found: Iterable[Peeked], by: str) -> None:
        known, left_alone, before = self._known, self._left_alone, len(self._known)
        for run in found:
            if run.run_id in left_alone:
                continue
            same = known.get(run.run_id)
            if same is None or run.due != same.due:  # the latest read counts
                class_queue = self._class_queue(run.class_id)
                new = known[run.run_id] = DueRun(run.run_id, run.uid, run.due, class_queue, next(self._order))
                class_queue.runs.add(new)
                class_queue.newest = new.order
        self._numbers.add(FOUND, by, n=len(known) - before)

    def _forget_left_alone(self) -> None:
        """Forget ignored runs whose time is over: such a run may have been edited, or no other worker took it."""
        now = self._clock.monotonic()
        while self._left_alone and next(iter(self._left_alone.values())) <= now:
            del self._left_alone[next(iter(self._left_alone))]

    # --------------------------------------------------------------------------------------------------------- choosing

    def take(self, capacity: Capacity, most: int) -> list[RunId]:
        """Return the ids to claim now, as many as fit."""
        rounds, class_queues = self._rounds, self._class_queues.values()
        others_wait = rounds.others_wait
        most = min(most, FAIR_CLAIM) if others_wait else most
        choice = Choice(
            class_queues, self._known, capacity, self._clock.now(), most, self.peers, others_wait=others_wait
        )
        turn_first = rounds.turn_first and not any(class_queue.goes_first for class_queue in class_queues)
        rounds.turn_first = choice.alternate(rounds.turns, turn_first=turn_first)
        if choice.last_turn is not None:
            rounds.took(choice.last_turn, self._known)
        self._took = bool(choice.taken)
        return [run.run_id for run in choice.taken]

    async def crowded_out(self, capacity: Capacity) -> list[ClassQueue]:
        """The class queues whose first high-priority run has found no slot for a while, here or elsewhere."""
        now = self._clock.now()
        class_queues = [
            class_queue for class_queue in self._class_queues.values() if self._is_crowded(class_queue, capacity, now)
        ]
        if not class_queues or now < self._crowded_at:
            return []
        self._crowded_at = Instant(now + PREEMPT_DELAY)
        found = await self._engine.running.peek(
            [class_queue.class_id for class_queue in class_queues], LONG_AGO, now, 1
        )
        waiting = {run.class_id for run in found}
        for class_queue in class_queues:
            if class_queue.class_id not in waiting:
                self._forget(class_queue)
        return [class_queue for class_queue in class_queues if class_queue.class_id in waiting]

    def _is_crowded(self, class_queue: ClassQueue, capacity: Capacity, now: Instant) -> bool:
        """Whether this worker should preempt. Workers act one after the other, so that not all preempt for one run."""
        if class_queue.priority is not Priority.HIGH or capacity.fits(
            class_queue.kind, class_queue.size, class_queue.priority
        ):
            return False
        head = class_queue.head(self._known, now)
        if head is None or capacity.is_barred(class_queue.kind, head.uid):
            return False
        return head.due <= now - PREEMPT_DELAY * min(1 + self.peers.turn(head.run_id), 8)

    def _forget(self, class_queue: ClassQueue, but: Container[RunId] = frozenset()) -> None:
        """Forget its due runs, except these: other workers have them now."""
        due = class_queue.runs.due()
        for run in due:
            if run.run_id not in but and self._known.get(run.run_id) is run:
                del self._known[run.run_id]
        class_queue.runs.keep_of_due([run for run in due if run.run_id in but])

    def full(self, capacity: Capacity) -> list[ClassId]:
        """The classes of due runs that it knows and has no room for."""
        return [one.class_id for one in self._without_room(capacity)]

    def _without_room(self, capacity: Capacity) -> list[ClassQueue]:
        return [
            class_queue
            for class_queue in self._class_queues.values()
            if class_queue.runs.how_many_due()
            and not class_queue.paused
            and not capacity.fits(class_queue.kind, class_queue.size, class_queue.priority)
        ]

    def to_pass_on(self, capacity: Capacity) -> list[Peeked]:
        """The due runs that have had no room here for a while, for other workers; each only once."""
        now = self._clock.now()
        if self.peers.count < 2 or now < self._pass_on_at:
            return []
        found = list[Peeked]()
        for class_queue in self._without_room(capacity):
            stuck = [run for run in class_queue.runs.due() if run.order > class_queue.passed_on]
            stuck = [run for run in stuck if run.due <= now - PASS_ON_DELAY and self._known.get(run.run_id) is run]
            found += [Peeked(run.run_id, run.due, class_queue.class_id, run.uid) for run in stuck]
            class_queue.passed_on = max((run.order for run in stuck), default=class_queue.passed_on)
        if found:
            self._pass_on_at = Instant(now + PASS_ON_PAUSE)
        return found

    def wait(self, capacity: Capacity) -> Duration:
        """How long until there are runs to read or to claim, or a run to preempt or to pass on."""
        now = self._clock.now()
        class_queues = [class_queue for class_queue in self._class_queues.values() if not class_queue.paused]
        ready = [class_queue for class_queue in class_queues if class_queue.runs.how_many_due()]
        full = [
            class_queue
            for class_queue in ready
            if not capacity.fits(class_queue.kind, class_queue.size, class_queue.priority)
        ]
        if self._took and len(full) < len(ready):
            return Duration(0)
        wanted = [due for class_queue in class_queues if (due := class_queue.runs.next_due()) is not None]
        if any(class_queue.priority is Priority.HIGH for class_queue in full):
            wanted.append(Instant(now + PREEMPT_DELAY))
        if self.peers.count > 1 and any(class_queue.newest > class_queue.passed_on for class_queue in full):
            wanted.append(max(Instant(now + PASS_ON_DELAY), self._pass_on_at))
        if self._rounds.wanted:
            wanted.append(self._rounds.rest_until)
        at_once = self._asked < now + AHEAD or self._behind(now)
        wanted.append(max(LONG_AGO if at_once else min(self._look_at, self._sweep_at), self._rest_until))
        return Duration(max(min(wanted) - now, 0))
