"""What a worker holds: one rule for all that gives runs to a worker.

A call that gives out runs goes through `take`, which remembers it if its answer is lost. And every few seconds the runs
that the store has under the worker's name are compared with those that the worker knows. What only the store has is
started, settled or returned to the queue, under the fence that was read; what only the worker has is stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol

from oncue.clock import Clock
from oncue.domain.attempt import LOST_SETTLEMENT
from oncue.domain.ids import RunId, WorkerId
from oncue.domain.instants import MILLISECOND, SECOND, Duration, Instant
from oncue.domain.run import Claimed, Holding
from oncue.engines.port import Engine
from oncue.log import log
from oncue.services.attempts import End
from oncue.services.reaper import lost
from oncue.services.recent_ends import Key, RecentEnds
from oncue.settings import Settings

EVERY = Duration(5 * SECOND)  # between two looks
ASK_AGAIN = Duration(SECOND)  # while a call without an answer may still take effect
WORKERS_AT_THIS_PACE = 20  # each look reads all that runs: of more workers each looks less often,
SLOWEST = 5  # but not less often than this many times EVERY, so that two looks fit into a minute
MOST_DOUBTS = 1_000

Found = Callable[[Sequence[Claimed]], None]


class Take(Protocol):
    """A verb that gives out runs: `now` is their `claimed_at`, and after `until` it gives out none."""

    async def __call__(self, now: Instant, until: Instant) -> Sequence[Claimed]: ...


class Crew(Protocol):
    """The members of the worker, as far as they have runs in hand."""

    def known(self) -> Iterable[Claimed]: ...

    def running(self) -> Iterable[Claimed]:
        """Of those that are known, the ones that are executing."""
        ...

    def stop_lost(self, run_id: RunId) -> None:
        """Stop a run that this worker does not own any more."""
        ...

    def ended(self, end: End) -> None: ...

    @property
    def workers(self) -> int:
        """How many workers there are, about."""
        ...


class Taking:
    """A call that gives out runs: under way, or without an answer."""

    __slots__ = ("asked_at", "found", "now")

    def __init__(self, now: Instant, asked_at: Instant, found: Found) -> None:
        self.now = now
        self.asked_at = asked_at
        self.found = found


class Holdings:
    name = "holdings"

    def __init__(
        self, engine: Engine, clock: Clock, worker_id: WorkerId, settings: Settings, crew: Crew, recent: RecentEnds
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._worker_id = worker_id
        self._crew = crew
        self._recent = recent
        self._store_timeout = settings.store_timeout
        self._may_come_true = Duration(2 * settings.store_timeout)  # the store itself gives up a statement after one
        self._forgotten_after = Duration(self._may_come_true + settings.lease)  # a later heartbeat has arrived by then
        self._too_long = Duration(settings.lease // 3)
        self._under_way: set[Taking] = set()
        self._doubts: dict[Instant, Taking] = {}  # calls whose answer was lost, by their `now`
        self._suspects: dict[Key, frozenset[Taking]] = {}  # unknown in the last look, and the calls under way then
        self._missing: frozenset[Key] = frozenset()  # executing, and not in the store in the last look
        self._look_at = clock.monotonic()
        self._beat_offset = -clock.monotonic()  # from the monotonic count to the time that heartbeats are stored with
        self.wake: Callable[[], None] = lambda: None  # its loop

    @property
    def in_doubt(self) -> int:
        """The number of calls whose answer was lost, and which may still take effect."""
        since = self._clock.monotonic() - self._may_come_true
        return sum(one.asked_at > since for one in self._doubts.values())

    @property
    def unsure(self) -> bool:
        """Whether this worker may own runs that it does not know of yet."""
        return bool(self._under_way) or self.in_doubt > 0

    def beaten(self, beat_at: Instant, asked_at: Instant) -> None:
        """Learn how a heartbeat was stored: by the clock of another process, which may follow a step before ours does.

        `asked_at` is monotonic. Deadlines of calls are compared with heartbeats.
        """
        self._beat_offset = beat_at - asked_at

    async def take(self, verb: Take, found: Found) -> Sequence[Claimed]:
        """Call a verb that gives out runs. `found` gets those of a call whose answer was lost, or came too late.

        The call has a deadline, after which it gives out none, however late it arrives at the store.
        """
        taking = Taking(self._clock.now(), self._clock.monotonic(), found)
        beat_at = max(taking.now, taking.asked_at + self._beat_offset)
        self._under_way.add(taking)
        try:
            runs = await verb(taking.now, Instant(beat_at + self._store_timeout))
        except BaseException:
            self._doubt(taking)
            raise
        finally:
            self._under_way.discard(taking)
        if self._clock.monotonic() - taking.asked_at > self._too_long:
            self._doubt(taking)  # we were asleep: the runs may be another worker's by now
            return ()
        return runs

    async def run_once(self) -> Duration:
        now = self._clock.monotonic()
        if now >= self._look_at:
            await self._look(now)
            pace = min(max(1.0, self._crew.workers / WORKERS_AT_THIS_PACE), SLOWEST)
            self._look_at = Instant(now + int(pace * (ASK_AGAIN if self.in_doubt else EVERY)))
        return Duration(max(MILLISECOND, self._look_at - self._clock.monotonic()))

    def _doubt(self, taking: Taking) -> None:
        while len(self._doubts) >= MOST_DOUBTS:
            del self._doubts[next(iter(self._doubts))]
        self._doubts[taking.now] = taking
        self._look_at = Instant(0)
        self.wake()

    # ------------------------------------------------------------------------------------------------------ the look

    async def _look(self, asked_at: Instant) -> None:
        under_way, known, running = set(self._under_way), self.known(), _keys(self._crew.running())
        stored = await self._engine.running.holdings(self._worker_id)
        if self._clock.monotonic() - asked_at > self._too_long:
            return  # asleep again, and the answer is old
        known |= self.known()
        await self._explain({one for one in stored if (one.run_id, one.token) not in known}, under_way)
        self._stop_lost(running - {(one.run_id, one.token) for one in stored})
        self._recent.forget()
        since = asked_at - self._forgotten_after
        self._doubts = {now: one for now, one in self._doubts.items() if one.asked_at > since}

    def known(self) -> set[Key]:
        """Return the runs that this worker has in hand, with their tokens."""
        return _keys(self._crew.known())

    async def _explain(self, unknown: Collection[Holding], under_way: set[Taking]) -> None:
        """Find out how each run that we do not know came under our name, and do what follows.

        A call without an answer says so itself: its instant is that of the run. Otherwise the answer may be on its way,
        or we were settling the run at this moment: wait for another look, and for the calls that are under way now.
        """
        doubted: dict[Key, Taking] = {}
        forgotten: set[Key] = set()
        suspects: dict[Key, frozenset[Taking]] = {}
        for one in unknown:
            key = one.run_id, one.token
            if one.claimed_at in self._doubts:
                doubted[key] = self._doubts[one.claimed_at]
            elif (before := self._suspects.get(key)) is None:
                suspects[key] = frozenset(under_way | self._under_way)
            elif before & self._under_way:
                suspects[key] = before
            else:
                forgotten.add(key)
        self._suspects = suspects
        if doubted or forgotten:
            await self._settle_unknown(doubted, forgotten)

    async def _settle_unknown(self, doubted: dict[Key, Taking], forgotten: set[Key]) -> None:
        asked = sorted({run_id for run_id, _ in (*doubted, *forgotten)})
        held = await self._engine.running.held_by(self._worker_id, asked)
        known = self.known()
        runs = {key: run for run in held if (key := (run.run_id, run.token)) not in known}
        by_taking: dict[Taking, list[Claimed]] = {}
        for key in doubted.keys() & runs.keys():
            by_taking.setdefault(doubted[key], []).append(runs[key])
        for taking, found in by_taking.items():
            taking.found(sorted(found, key=lambda run: (run.due, run.run_id)))
        again = self._recent.of(forgotten)
        for key in forgotten & runs.keys():
            self._crew.ended(again[key] if key in again else self._lost(runs[key]))
        if forgotten & runs.keys():
            log.warning(
                "The database lost what this worker had written: runs are settled again, or return to the queue",
                kind="lost_settlement",
                settled_again=len(again.keys() & runs.keys()),
                lost=len(forgotten & runs.keys() - again.keys()),
            )

    def _lost(self, run: Claimed) -> End:
        return lost(run, self._worker_id, run.claimed_at, self._clock.now(), LOST_SETTLEMENT)

    def _stop_lost(self, missing: set[Key]) -> None:
        """Stop what was missing in two looks: another worker may own it."""
        for run_id, _ in missing & self._missing & _keys(self._crew.running()):
            log.warning("This worker does not own a run any more and stops it", kind="run_not_held", run_id=str(run_id))
            self._crew.stop_lost(run_id)
        self._missing = frozenset(missing)


def _keys(runs: Iterable[Claimed]) -> set[Key]:
    return {(run.run_id, run.token) for run in runs}
