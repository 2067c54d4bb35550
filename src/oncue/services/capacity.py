"""A worker's capacity: how much it has, how much is taken, and which users may take the rest."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy

from oncue.domain.ids import UserNumber
from oncue.domain.placement import Priority, Resources
from oncue.tasks import Isolation

MOST_FOR_ONE = 0.8  # of the slots that all priorities share, while other users wait
MOST_LEFT = 8  # attempts left by users who had left none before, unless the worker sets another limit

Left = tuple[Isolation, UserNumber]  # the kind, and the user


class Capacity:
    """Slots of each kind, and cpu and memory for runs that ask for them. Whatever is taken is always given back.

    An attempt that does not stop when told to is **left** behind. It takes no slot, so that no other user suffers,
    until as many of a kind are left as there are slots. But it counts against its user: towards what one user may hold
    while others wait; and a user who has left more than wears a worker out gets no slot of that kind until some of
    these attempts have ended. A user who wore out a worker before this one is **known for it**: this user's active and
    left attempts here are at most half of that number.
    """

    def __init__(
        self,
        places: Mapping[Isolation, int],
        resources: Resources,
        reserved: float = 0.0,
        most_left: int = MOST_LEFT,
    ) -> None:
        self._size = dict(places)
        self._free = dict(places)
        self._reserved = {kind: int(size * reserved) for kind, size in places.items()}
        offered = resources.size_class()  # in the units that runs are counted in
        self._cpu = offered.cpu_milli
        self._memory = offered.memory_mb
        self._held: dict[Isolation, dict[UserNumber, int]] = {kind: {} for kind in places}
        self._most_left = most_left
        self._much = max(1, most_left // 2)
        self.left: dict[Left, int] = {}
        self.known_for_it: frozenset[Left] = frozenset()

    def copy(self) -> Capacity:
        """Copy it, to try what would fit."""
        other = copy(self)
        other._free = dict(self._free)
        other._held = {kind: dict(held) for kind, held in self._held.items()}
        return other

    @property
    def size(self) -> Mapping[Isolation, int]:
        """The slots of each kind."""
        return self._size

    @property
    def used(self) -> Mapping[Isolation, int]:
        """The slots of each kind that are taken."""
        return {kind: size - self._free[kind] for kind, size in self._size.items()}

    def how_many(self, kind: Isolation, size: Resources, priority: Priority) -> int:
        """How many runs of this size fit now. The last slots are reserved for high-priority runs.

        But a large run that needs some of the reserved slots gets these when it is alone: else it would never run.
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
        """What must be given back for this run to fit."""
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

    def release(self, kind: Isolation, size: Resources, uid: UserNumber) -> None:
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
        """Whether this user holds as much as one user may while others wait."""
        holds = self._held[kind].get(uid, 0) + self.left.get((kind, uid), 0)
        return holds >= MOST_FOR_ONE * (self._size[kind] - self._reserved[kind])

    # ------------------------------------------------------------------------------------------- what does not stop

    def leave(self, kind: Isolation, uid: UserNumber) -> None:
        """Count an attempt that runs on although its slot was given back."""
        self.left[kind, uid] = self.left.get((kind, uid), 0) + 1
        if self._left_of(kind) > self._size[kind]:
            self._free[kind] -= 1

    def left_ended(self, kind: Isolation, uid: UserNumber) -> None:
        """Count the end of an attempt that was left behind."""
        if self._left_of(kind) > self._size[kind]:
            self._free[kind] += 1
        self.left[kind, uid] -= 1
        if not self.left[kind, uid]:
            del self.left[kind, uid]

    @property
    def worn(self) -> bool:
        """Whether this worker should be replaced: too many attempts are left, by users not known for it, or by all."""
        fresh = sum(many for who, many in self.left.items() if who not in self.known_for_it)
        return fresh > self._most_left or any(self._left_of(kind) > size for kind, size in self._size.items())

    @property
    def worn_by(self) -> tuple[Left, ...]:
        """The users who have left many attempts."""
        return tuple(who for who, many in self.left.items() if many >= self._much)

    @property
    def wary(self) -> bool:
        """Whether any user may be barred."""
        return bool(self.left or self.known_for_it)

    def is_barred(self, kind: Isolation, uid: UserNumber) -> bool:
        """Whether this user gets no more slots of this kind here, until some of its left attempts have ended."""
        left = self.left.get((kind, uid), 0)
        if (kind, uid) in self.known_for_it:
            return left + self._held[kind].get(uid, 0) >= self._much
        return left > self._most_left

    def _left_of(self, kind: Isolation) -> int:
        return sum(many for (of, _), many in self.left.items() if of is kind)
