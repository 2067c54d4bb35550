"""The lanes and meters that a transaction changes, collected while it works and tended once before it ends."""

from __future__ import annotations

from collections import Counter

from oncue.domain.ids import UserNumber
from oncue.domain.instants import NEVER, Instant
from oncue.domain.lane import Held, RateBucket
from oncue.domain.run import NewRun


class TouchedLanes:
    def __init__(self, now: Instant) -> None:
        self.now = now  # whoever is let in could not start before
        self.lanes: set[int] = set()
        self.gates: dict[int, int] = {}  # with their widths; 0: unchanged
        self.meters: dict[int, Instant] = {}  # with the first due of the runs that only their rate holds now
        self.rates: dict[int, RateBucket] = {}  # what new members say about their meters
        self.dropped: Counter[UserNumber] = Counter()  # notices that were not inserted, because too many wait

    def add(self, run: NewRun) -> None:
        """Add a new member: its definition sets the width of its gate and the rate of its meter."""
        lanes = run.lanes
        if lanes.lane is not None:
            self.lanes.add(lanes.lane)
        if lanes.gate is not None:
            self.gates[lanes.gate] = lanes.width
        if lanes.meter is not None:
            self.rates[lanes.meter.key] = lanes.meter
            self.meters.setdefault(lanes.meter.key, NEVER)
            self.wait_for_rate(lanes.meter.key, lanes.held | run.held, run.wanted)

    def free(self, lane: int | None, gate: int | None) -> None:
        if lane is not None:
            self.lanes.add(lane)
        if gate is not None:
            self.gates.setdefault(gate, 0)

    def wait_for_rate(self, meter: int | None, held: int, due: Instant) -> None:
        """Note a waiting run. If only its rate holds it, the next grant for its meter is at the run's due."""
        if meter is not None and held == Held.RATE:
            self.meters[meter] = min(due, self.meters.get(meter, NEVER))

    def __bool__(self) -> bool:
        return bool(self.lanes or self.gates or self.meters or self.dropped)
