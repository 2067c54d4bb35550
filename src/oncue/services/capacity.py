"""What a worker has to give, what is taken of it, and who may have the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from oncue.domain.ids import UserNumber
from oncue.domain.placement import Priority, Resources
from oncue.tasks import Isolation

MOST_FOR_ONE = 0.8  # of the places of a kind that one user may hold while others wait


class Capacity:
    """Places of each kind, and cpu and memory for whoever asks for them. Whatever is taken is given back, always."""

    def __init__(self, places: Mapping[Isolation, int], resources: Resources, reserved: float = 0.0) -> None:
        self._size = dict(places)
        self._free = dict(places)
        self._reserved = {kind: int(size * reserved) for kind, size in places.items()}
        offered = resources.size_class()  # as runs are counted
        self._cpu = offered.cpu_milli
        self._memory = offered.memory_mb
        self._held: Counter[tuple[Isolation, UserNumber]] = Counter()

    def fits(self, kind: Isolation, size: Resources, priority: Priority) -> bool:
        """Is there room now? The last places of a kind are kept for what is of high priority."""
        kept = 0 if priority is Priority.HIGH else self._reserved[kind]
        return (
            size.slots <= self._free[kind] - kept
            and (not size.cpu_milli or size.cpu_milli <= self._cpu)
            and (not size.memory_mb or size.memory_mb <= self._memory)
        )

    def full(self, kind: Isolation) -> bool:
        return self._free[kind] <= 0

    def take(self, kind: Isolation, size: Resources, uid: UserNumber) -> None:
        self._move(kind, size, uid, 1)

    def give_back(self, kind: Isolation, size: Resources, uid: UserNumber) -> None:
        self._move(kind, size, uid, -1)

    def has_enough(self, kind: Isolation, uid: UserNumber) -> bool:
        """This user holds as much as one may while others wait."""
        return self._held[kind, uid] >= MOST_FOR_ONE * self._size[kind]

    def _move(self, kind: Isolation, size: Resources, uid: UserNumber, sign: int) -> None:
        self._free[kind] -= sign * size.slots
        self._cpu -= sign * size.cpu_milli
        self._memory -= sign * size.memory_mb
        self._held[kind, uid] += sign * size.slots
        if not self._held[kind, uid]:
            del self._held[kind, uid]
