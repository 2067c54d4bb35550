"""What a worker has to give, what is taken of it, and who may have the rest."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy

from oncue.domain.ids import UserNumber
from oncue.domain.placement import Priority, Resources
from oncue.tasks import Isolation

MOST_FOR_ONE = 0.8  # of the places that all may have, while others wait


class Capacity:
    """Places of each kind, and cpu and memory for whoever asks for them. Whatever is taken is given back, always."""

    def __init__(self, places: Mapping[Isolation, int], resources: Resources, reserved: float = 0.0) -> None:
        self._size = dict(places)
        self._free = dict(places)
        self._reserved = {kind: int(size * reserved) for kind, size in places.items()}
        offered = resources.size_class()  # as runs are counted
        self._cpu = offered.cpu_milli
        self._memory = offered.memory_mb
        self._held: dict[Isolation, dict[UserNumber, int]] = {kind: {} for kind in places}

    def copy(self) -> Capacity:
        """To try out what would fit."""
        other = copy(self)
        other._free = dict(self._free)
        other._held = {kind: dict(held) for kind, held in self._held.items()}
        return other

    def how_many(self, kind: Isolation, size: Resources, priority: Priority) -> int:
        """So many of this size there is room for now. The last places are kept for what is of high priority.

        But what needs so many that some of these are among them gets them when it is alone: else it would never run.
        """
        kept = 0 if priority is Priority.HIGH else min(self._reserved[kind], self._size[kind] - size.slots)
        many = (self._free[kind] - kept) // size.slots
        if size.cpu_milli:
            many = min(many, self._cpu // size.cpu_milli)
        if size.memory_mb:
            many = min(many, self._memory // size.memory_mb)
        return many

    def fits(self, kind: Isolation, size: Resources, priority: Priority) -> bool:
        return self.how_many(kind, size, priority) > 0

    def short_of(self, kind: Isolation, size: Resources) -> Resources:
        """What would have to be given back for it to fit."""
        return Resources(
            max(0, size.cpu_milli - self._cpu) if size.cpu_milli else 0,
            max(0, size.memory_mb - self._memory) if size.memory_mb else 0,
            max(0, size.slots - self._free[kind]),
        )

    def take(self, kind: Isolation, size: Resources, uid: UserNumber, many: int = 1) -> None:
        slots = many * size.slots
        self._free[kind] -= slots
        if size.cpu_milli:
            self._cpu -= many * size.cpu_milli
        if size.memory_mb:
            self._memory -= many * size.memory_mb
        held = self._held[kind]
        held[uid] = held.get(uid, 0) + slots

    def give_back(self, kind: Isolation, size: Resources, uid: UserNumber) -> None:
        self._free[kind] += size.slots
        if size.cpu_milli:
            self._cpu += size.cpu_milli
        if size.memory_mb:
            self._memory += size.memory_mb
        held = self._held[kind]
        left = held[uid] - size.slots
        if left:
            held[uid] = left
        else:
            del held[uid]

    def has_enough(self, kind: Isolation, uid: UserNumber) -> bool:
        """This user holds as much as one may while others wait."""
        return self._held[kind].get(uid, 0) >= MOST_FOR_ONE * (self._size[kind] - self._reserved[kind])
