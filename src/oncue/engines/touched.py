"""The lanes and meters a transaction has to do with, gathered while it works and tended once before it ends."""

from __future__ import annotations

from oncue.domain.instants import NEVER, Instant
from oncue.domain.lane import Held, RateBucket
from oncue.domain.run import NewRun


class TouchedLanes:
    def __init__(self) -> None:
        self.lanes: set[int] = set()
        self.gates: dict[int, int] = {}  # with their widths; 0: as it is
        self.meters: dict[int, Instant] = {}  # with the first due of those that only their rate holds now
        self.rates: dict[int, RateBucket] = {}  # what new members say about their meters

    def add(self, run: NewRun) -> None:
        """A new member: its definition says how wide the gate is, and how fast its meter lets runs start."""
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
        """A run as it waits now. If nothing but its rate holds it, its meter is looked at when it is due."""
        if meter is not None and held == Held.RATE:
            self.meters[meter] = min(due, self.meters.get(meter, NEVER))

    def __bool__(self) -> bool:
        return bool(self.lanes or self.gates or self.meters)
