"""Where a run may go: its class, what a worker offers, and the order among what is due."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

import msgspec

from oncue.domain.errors import TooManyClasses
from oncue.domain.instants import MINUTE, Duration


class Priority(IntEnum):
    HIGH = 0
    NORMAL = 1
    LOW = 2


# Everything waiting ages at the same rate, so a static offset per priority is all that ageing needs: each priority
# overtakes what is up to five minutes older of the next one. A low run is overtaken for ten minutes at most.
HEAD_START: dict[Priority, Duration] = {
    Priority.HIGH: Duration(-5 * MINUTE),
    Priority.NORMAL: Duration(0),
    Priority.LOW: Duration(5 * MINUTE),
}


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


GONE = ""  # the queue of the classes that stand in for those nothing refers to any more: no job can name it


def too_many_classes(key: ClassKey, most: int) -> TooManyClasses:
    """What to tell somebody who needs a class more than they may have made. The field is the one that stands out."""
    given = {"queue": key.queue != ClassKey("").queue, "labels": bool(key.labels), "resources": key.size != Resources()}
    path = next((name for name, stands_out in given.items() if stands_out), "queue")
    what = f"your jobs have made {most} different combinations of task, queue, priority, labels and resources"
    advice = "use those again, or wait until some have gone that nothing refers to any more"
    return TooManyClasses(f"{what}, and more are not kept: {advice}", path, key)


class Offer(msgspec.Struct, frozen=True):
    """What one worker can run."""

    tasks: frozenset[str]
    queues: frozenset[str] = frozenset({"default"})
    labels: frozenset[str] = frozenset()
    resources: Resources = Resources()
    slots: Mapping[str, int] = {}  # by task, where it is not as many as the resources say

    def room_for(self, task: str) -> Resources:
        """All that a run of this task can get here."""
        return msgspec.structs.replace(self.resources, slots=self.slots.get(task, self.resources.slots))


class Mismatch(IntEnum):
    """What a worker lacks first, from the farthest to the closest to being able to run something."""

    NO_TASK = 0
    NO_QUEUE = 1
    NO_LABELS = 2
    TOO_BIG = 3


def mismatch(key: ClassKey, offer: Offer) -> Mismatch | None:
    """None if the worker could run it when free, else the first thing against it."""
    if key.task not in offer.tasks:
        return Mismatch.NO_TASK
    if key.queue not in offer.queues:
        return Mismatch.NO_QUEUE
    if not offer.labels.issuperset(key.labels):
        return Mismatch.NO_LABELS
    if not key.size.within(offer.room_for(key.task)):
        return Mismatch.TOO_BIG
    return None


show_offer = msgspec.json.Encoder().encode
_read_offer = msgspec.json.Decoder(Offer).decode


def read_offer(info: bytes | None) -> Offer | None:
    """What a worker says of itself. None: nothing that can be read: it may be older or newer than we are."""
    try:
        return None if info is None else _read_offer(info)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
