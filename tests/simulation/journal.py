"""What the bodies of tasks write down themselves, beside what the store answered. The checker believes nothing else.

Everything carries its place in one sequence, so that "before" has one meaning however the clock jumps.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from uuid import UUID

from oncue.domain.ids import JobId, RunId, WorkerId
from oncue.domain.instants import SECOND, Instant
from oncue.domain.run import Claimed
from oncue.testing.clock import FakeClock


@dataclass
class Start:
    """One body that ran, as it saw itself."""

    serial: int
    at: int
    elapsed: Instant
    now: Instant
    run_id: RunId
    job_id: JobId
    worker: WorkerId
    edit: int
    checkpoint: int | None
    told_at: int | None = None  # asked to stop, whether it did or not
    ended_at: int | None = None
    stopped_elapsed: Instant | None = None  # told or ended, whichever came first
    ended_now: Instant | None = None
    how: str = "going"  # returned, failed, final (NoRetry), stopped, killed
    asked_wait: int = 0  # of a RetryAfter
    saves: list[tuple[int, int]] = field(default_factory=list)  # checkpoints kept: asked at, answered at


@dataclass(frozen=True)
class Claim:
    at: int
    run_id: RunId
    worker: WorkerId
    token: int
    now: Instant
    run: Claimed


class Journal:
    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self._begin = clock.now()
        self.lines: list[str] = []
        self.starts: list[Start] = []
        self.claims: dict[RunId, list[Claim]] = defaultdict(list)
        self.last_claims: list[Claim] = []  # of all runs
        self.gone: dict[WorkerId, int] = {}  # buried, or said goodbye: its lease is worth nothing from there on
        self.killed_at: dict[WorkerId, Instant] = {}  # monotonic
        self.gone_at: dict[WorkerId, Instant] = {}
        self.handed_back: Counter[RunId] = Counter()
        self.doubted: set[tuple[RunId, WorkerId]] = set()  # found out to be its own after an answer was lost
        self.asked: dict[tuple[WorkerId, Instant], Instant] = {}  # each beat, by the instant it was sent with
        self.beats: dict[WorkerId, Instant] = {}  # the last that arrived: when it was asked for, monotonic
        self.early_burials: list[str] = []
        self.crashes: list[str] = []
        self.planned: list[int] = []  # runs made by each pass of a planner

    def note(self, text: str) -> int:
        """One line; its place in the sequence."""
        elapsed = self._clock.monotonic() / SECOND
        self.lines.append(f"{len(self.lines):5} {elapsed:8.3f} ({self._clock.now() - self._begin:+}µs) {text}")
        return len(self.lines) - 1

    # ------------------------------------------------------------------------------------------------- said by bodies

    def started(self, run_id: UUID, job_id: UUID, worker: WorkerId, edit: int, checkpoint: int | None) -> Start:
        serial = len(self.starts)
        at = self.note(f"start {serial} of run {short(run_id)} on {short(worker)}")
        start = Start(
            serial,
            at,
            self._clock.monotonic(),
            self._clock.now(),
            RunId(run_id),
            JobId(job_id),
            worker,
            edit,
            checkpoint,
        )
        self.starts.append(start)
        return start

    def told(self, start: Start) -> None:
        if start.told_at is None and start.ended_at is None:
            start.told_at = self.note(f"start {start.serial} is told to stop")
            start.stopped_elapsed = self._clock.monotonic()

    def ended(self, start: Start, how: str) -> None:
        if start.ended_at is None:
            start.ended_at = self.note(f"start {start.serial} of run {short(start.run_id)}: {how}")
            start.ended_now, start.how = self._clock.now(), how
            start.stopped_elapsed = start.stopped_elapsed or self._clock.monotonic()

    # ------------------------------------------------------------------------------------------- answered by the store

    def killed(self, worker: WorkerId) -> None:
        self.note(f"worker {short(worker)} is killed")
        self.killed_at[worker] = self._clock.monotonic()
        for start in self.starts:
            if start.worker == worker:
                self.ended(start, "killed")

    def claimed(self, worker: WorkerId, run: Claimed) -> None:
        at = self.note(f"claimed {short(run.run_id)} #{run.token} by {short(worker)}")
        self.last_claims.append(Claim(at, run.run_id, worker, run.token, self._clock.now(), run))
        self.claims[run.run_id].append(self.last_claims[-1])

    def buried(self, worker: WorkerId, silence: int) -> None:
        self.gone.setdefault(worker, self.note(f"worker {short(worker)} is buried"))
        self.gone_at.setdefault(worker, self._clock.monotonic())
        if self._clock.monotonic() <= self.beats[worker] + silence:
            self.early_burials.append(f"worker {short(worker)} was buried before its lease was over")

    def left(self, worker: WorkerId) -> None:
        self.gone.setdefault(worker, self.note(f"worker {short(worker)} has left"))
        self.gone_at.setdefault(worker, self._clock.monotonic())

    # ---------------------------------------------------------------------------------------------------- looking back

    def claim_of(self, start: Start) -> Claim | None:
        """The claim that this start followed from."""
        own = [c for c in self.claims[start.run_id] if c.worker == start.worker and c.at < start.at]
        return own[-1] if own else None

    def over_at(self, start: Start, *, holds: bool = False) -> int:
        """From where on nobody need mind this body: it ended, was told to, or its worker's lease was over.

        `holds`: it counts until it ends, also if it was told to.
        """
        ends = (start.ended_at, None if holds else start.told_at, self.gone.get(start.worker))
        return min((at for at in ends if at is not None), default=len(self.lines))


def short(identifier: UUID) -> str:
    return identifier.hex[-6:]
