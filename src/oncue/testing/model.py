"""A second, simplest implementation of what runs may do: dicts, no batches, no indexes, no concurrency.

Engines are compared with it step by step. It shares no rule with them: not the SQL, not the bits that hold a run, not
the way lanes are tended. It computes from scratch, at every question, which runs are admitted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from oncue.domain.ids import LaneKey, RunId, WorkerId
from oncue.domain.instants import Instant
from oncue.domain.lane import Lanes, RateBucket
from oncue.domain.run import State
from oncue.engines.granting import UNUSED_AFTER


@dataclass
class Run:
    run_id: RunId
    queue: str
    wanted: Instant
    due: Instant
    lanes: Lanes
    expires_at: Instant | None
    state: State = State.WAITING
    token: int = 0
    failures: int = 0
    losses: int = 0
    worker: WorkerId | None = None
    cancel_asked: bool = False
    paused: bool = False
    granted: bool = False  # it has a start, if it has a rate

    @property
    def tried(self) -> bool:
        return self.failures + self.losses > 0

    @property
    def pinned(self) -> bool:
        """Return whether the run keeps its positions in its lanes: running, or between two attempts."""
        return self.state is State.RUNNING or (self.state is State.WAITING and self.tried)

    def expired(self, now: Instant) -> bool:
        return self.expires_at is not None and self.expires_at < now and not self.tried


@dataclass
class Model:
    runs: dict[RunId, Run] = field(default_factory=dict)
    widths: dict[LaneKey, int] = field(default_factory=dict)
    paused_queues: set[str] = field(default_factory=set)
    withdrawn: int = 0
    rates: dict[LaneKey, RateBucket] = field(default_factory=dict)
    starts: dict[LaneKey, list[Instant]] = field(default_factory=lambda: defaultdict(list))
    _unused: bool = False

    # -------------------------------------------------------------------------------------------------- who is admitted

    def _live(self) -> list[Run]:
        return sorted(
            (run for run in self.runs.values() if not run.state.final), key=lambda run: (run.wanted, run.run_id)
        )

    def _first(self, candidates: list[Run], members: list[Run], width: int) -> set[RunId]:
        """Return the members that have a position already, then the first candidates for what is left."""
        pinned = [run.run_id for run in members if run.pinned]
        others = [run.run_id for run in candidates if not run.pinned and not run.paused]
        return {*pinned, *others[: max(0, width - len(pinned))]}

    def through_lane(self) -> list[Run]:
        """Return the runs that their serial lane admits, in order; a run without a lane needs none."""
        live = self._live()
        admitted = {run.run_id for run in live if run.lanes.lane is None}
        for lane in {run.lanes.lane for run in live if run.lanes.lane is not None}:
            members = [run for run in live if run.lanes.lane == lane]
            admitted |= self._first(members, members, 1)
        return [run for run in live if run.run_id in admitted]

    def admitted(self) -> set[RunId]:
        """Return the runs that their lane and gate admit."""
        candidates = self.through_lane()
        admitted = {run.run_id for run in candidates if run.lanes.gate is None}
        for gate in {run.lanes.gate for run in candidates if run.lanes.gate is not None}:
            waiting = [run for run in candidates if run.lanes.gate == gate]
            members = [run for run in self._live() if run.lanes.gate == gate]
            admitted |= self._first(waiting, members, self.widths[gate])
        return admitted

    def ready(self, now: Instant) -> list[Run]:
        """Return what a peek shows: waiting, due, not held; earliest first."""
        admitted = self.admitted()
        found = [
            run
            for run in self.runs.values()
            if run.state is State.WAITING
            and run.due <= now
            and not run.paused
            and run.run_id in admitted
            and (run.lanes.meter is None or run.granted)
        ]
        return sorted(found, key=lambda run: run.due)

    def claimable(self, now: Instant) -> set[RunId]:
        return {run.run_id for run in self.ready(now) if not run.expired(now) and run.queue not in self.paused_queues}

    # ------------------------------------------------------------------------------------------------------------ moves

    def create(self, run: Run) -> None:
        self.runs[run.run_id] = run
        if run.lanes.gate is not None:
            self.widths[run.lanes.gate] = run.lanes.width
        if run.lanes.meter is not None:
            self.rates[run.lanes.meter.key] = run.lanes.meter

    def claim(self, worker: WorkerId, run_id: RunId) -> None:
        run = self.runs[run_id]
        run.state, run.worker, run.token = State.RUNNING, worker, run.token + 1

    def settle(self, run_id: RunId, state: State, due: Instant | None, *, failures: int, losses: int) -> None:
        run = self.runs[run_id]
        run.state, run.worker = (State.CANCELLED if run.cancel_asked else state), None
        run.failures, run.losses = failures, losses
        if run.state is State.WAITING and due is not None:
            run.due, run.granted = due, False

    def hand_back(self, run_id: RunId) -> None:
        run = self.runs[run_id]
        run.state, run.worker = (State.CANCELLED if run.cancel_asked else State.WAITING), None

    def cancel(self, run_id: RunId) -> None:
        run = self.runs[run_id]
        if run.state is State.WAITING:
            run.state = State.CANCELLED
        elif run.state is State.RUNNING:
            run.cancel_asked = True

    def expire(self, now: Instant) -> int:
        late = [run for run in self.runs.values() if run.state is State.WAITING and run.expired(now)]
        for run in late:
            run.state = State.EXPIRED
        return len(late)

    def waiting_for_rate(self, until: Instant, now: Instant) -> list[Run]:
        """Return the due runs that nothing else holds; earliest first."""
        admitted = self.admitted()
        found = [
            run
            for run in self.runs.values()
            if run.state is State.WAITING
            and run.lanes.meter is not None
            and not (run.granted or run.paused or run.expired(now))
            and run.run_id in admitted
            and run.due <= until
        ]
        return sorted(found, key=lambda run: (run.due, run.run_id))

    def sees_unused_starts(self, now: Instant) -> bool:
        """Return whether the engine takes starts back from now on; which ones depends on when it looked."""
        waiting = (run for run in self.runs.values() if run.state is State.WAITING and run.granted)
        self._unused = self._unused or any(run.due <= now - UNUSED_AFTER for run in waiting)
        return self._unused

    def permit(self, until: Instant, now: Instant) -> int:
        """Grant every start that rates allow until then, earliest due first; return how many."""
        before = sum(map(len, self.starts.values()))
        for run in self.waiting_for_rate(until, now):
            assert run.lanes.meter is not None
            start = self._first_start(run.lanes.meter.key, max(run.due, now))
            if start <= until:
                self.starts[run.lanes.meter.key].append(start)
                run.due, run.granted = start if start > now else run.due, True
        return sum(map(len, self.starts.values())) - before

    def granted(self, dues: Mapping[RunId, tuple[Instant, bool]]) -> None:
        """Record when each of these runs is due now and whether it has a start. One that lost it is due as before."""
        for run_id, (due, granted) in dues.items():
            run = self.runs[run_id]
            if not run.granted:
                assert due >= run.due if granted else due == run.due
            run.due, run.granted = due, granted

    def _first_start(self, key: LaneKey, at: Instant) -> Instant:
        """Return the first instant from `at` and the last start on, before which few enough runs have started."""
        given, rate = self.starts[key], self.rates[key]
        candidates = sorted(max(at, *given[-1:], Instant(one)) for one in (at, *(start + rate.per for start in given)))
        return next(start for start in candidates if sum(start - rate.per < one <= start for one in given) < rate.limit)

    # ---------------------------------------------------------------------------------------------------------- looking

    def held_by(self, worker: WorkerId) -> list[RunId]:
        return [run.run_id for run in self.runs.values() if run.worker == worker]

    def overlaps(self) -> list[LaneKey]:
        """Return serial lanes in which two runs are running at once: there must never be any."""
        running = Counter(
            run.lanes.lane for run in self.runs.values() if run.state is State.RUNNING and run.lanes.lane is not None
        )
        return [lane for lane, n in running.items() if n > 1]
