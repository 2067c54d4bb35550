"""The lanes a transaction has to do with, gathered while it works and tended once before it ends."""

from __future__ import annotations

from oncue.domain.lane import Lanes


class Touched:
    def __init__(self) -> None:
        self.lanes: set[int] = set()
        self.gates: dict[int, int] = {}  # with their widths; 0: as it is

    def add(self, lanes: Lanes) -> None:
        """A new member: its definition says how wide the gate is."""
        if lanes.lane is not None:
            self.lanes.add(lanes.lane)
        if lanes.gate is not None:
            self.gates[lanes.gate] = lanes.width

    def free(self, lane: int | None, gate: int | None) -> None:
        if lane is not None:
            self.lanes.add(lane)
        if gate is not None:
            self.gates.setdefault(gate, 0)

    def __bool__(self) -> bool:
        return bool(self.lanes or self.gates)
