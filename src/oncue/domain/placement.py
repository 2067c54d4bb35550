"""Where a run may go: its class, what a worker offers, and the order among what is due."""

from __future__ import annotations

from enum import IntEnum

import msgspec

from oncue.domain.instants import MINUTE, Duration, Instant


class Priority(IntEnum):
    HIGH = 0
    NORMAL = 1
    LOW = 2


# Everything waiting ages at the same rate, so a static offset per priority is all that ageing needs:
# a low run is overtaken for five minutes at most, and a high one overtakes what is up to five minutes older.
HEAD_START: dict[Priority, Duration] = {
    Priority.HIGH: Duration(-5 * MINUTE),
    Priority.NORMAL: Duration(0),
    Priority.LOW: Duration(5 * MINUTE),
}


def rank(priority: Priority, due: Instant) -> Instant:
    """What to order by among runs that are due: the smallest goes first."""
    return Instant(due + HEAD_START[priority])


class Resources(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a run takes while it runs, or what a worker has to give."""

    cpu_milli: int = 0
    memory_mb: int = 0
    slots: int = 1

    def within(self, offer: Resources) -> bool:
        """Compared in size classes: whatever truly fits is within, and so is what exceeds by less than a class."""
        mine, theirs = self.size_class(), offer.size_class()
        return mine.cpu_milli <= theirs.cpu_milli and mine.memory_mb <= theirs.memory_mb and mine.slots <= theirs.slots

    def size_class(self) -> Resources:
        """Rounded up, cpu and memory to eight sizes per doubling, so that all sizes asked for make few classes."""
        return Resources(_round_up(self.cpu_milli), _round_up(self.memory_mb), self.slots)


def _round_up(amount: int) -> int:
    grain = 1 << max(0, (amount - 1).bit_length() - 4)
    return -(-amount // grain) * grain


class ClassKey(msgspec.Struct, frozen=True):
    """What a worker can or cannot take, as one value. Engines intern it as a small number."""

    task: str
    queue: str = "default"
    priority: Priority = Priority.NORMAL
    labels: tuple[str, ...] = ()
    size: Resources = Resources()


class Offer(msgspec.Struct, frozen=True):
    """What one worker can run."""

    tasks: frozenset[str]
    queues: frozenset[str] = frozenset({"default"})
    labels: frozenset[str] = frozenset()
    resources: Resources = Resources()


def misfit(key: ClassKey, offer: Offer) -> str | None:
    """None if the worker could run it when free, else the first reason against it."""
    if key.task not in offer.tasks or key.queue not in offer.queues:
        return "no_worker"
    if not offer.labels.issuperset(key.labels):
        return "no_labels"
    if not key.size.within(offer.resources):
        return "too_big"
    return None
