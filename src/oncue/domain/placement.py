"""Match runs with workers: a run's class, a worker's offer, and the order of due runs."""

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


# All waiting runs age at the same rate, so ageing needs only a static offset per priority: each priority overtakes runs
# of the next one that are up to five minutes older. A low run is overtaken for ten minutes at most.
HEAD_START: dict[Priority, Duration] = {
    Priority.HIGH: Duration(-5 * MINUTE),
    Priority.NORMAL: Duration(0),
    Priority.LOW: Duration(5 * MINUTE),
}


class Resources(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a run occupies while it runs, or what a worker has in total."""

    cpu_milli: int = 0
    memory_mb: int = 0
    slots: int = 1

    def within(self, offer: Resources) -> bool:
        """Whether this fits, compared by size class: a size that exceeds by less than a class counts as fitting."""
        mine, theirs = self.size_class(), offer.size_class()
        return mine.cpu_milli <= theirs.cpu_milli and mine.memory_mb <= theirs.memory_mb and mine.slots <= theirs.slots

    def size_class(self) -> Resources:
        """Round cpu and memory up to eight sizes per doubling, so that all requested sizes form few classes."""
        return Resources(_round_up(self.cpu_milli), _round_up(self.memory_mb), self.slots)


def _round_up(amount: int) -> int:
    grain = 1 << max(0, (amount - 1).bit_length() - 4)
    return -(-amount // grain) * grain


DEFAULT_QUEUE = "default"


class ClassKey(msgspec.Struct, frozen=True):
    """What decides which workers can take a run, as one value. Engines intern it as a small number."""

    task: str
    queue: str = DEFAULT_QUEUE
    priority: Priority = Priority.NORMAL
    labels: tuple[str, ...] = ()
    size: Resources = Resources()


NOTIFY = "notify"  # the built-in task that tells users of their runs
BUILT_IN = frozenset({"http", "command", NOTIFY})  # who may use them is for workers' settings to say
SYSTEM_QUEUE = "oncue"  # its queue: no job can name it
NOTICE_CLASS = ClassKey(NOTIFY, SYSTEM_QUEUE)

GONE = ""  # the queue of placeholder classes for deleted ones: no job can name it


def too_many_classes(key: ClassKey, most: int) -> TooManyClasses:
    """Build the error for a user who needs one class too many. Names the field that differs from its default."""
    given = {"queue": key.queue != ClassKey("").queue, "labels": bool(key.labels), "resources": key.size != Resources()}
    path = next((name for name, stands_out in given.items() if stands_out), "queue")
    what = f"your jobs already use {most} combinations of task, queue, priority, labels and resources, the limit"
    advice = "use an existing combination, or wait until unused ones are deleted"
    return TooManyClasses(f"{what}; {advice}", path, key)


class Everything(frozenset[str]):
    """Every queue, or every label: of a worker that is the only one."""

    def __contains__(self, _: object) -> bool:
        return True

    def issuperset(self, _: object) -> bool:
        return True


class Offer(msgspec.Struct, frozen=True):
    """What one worker can run."""

    tasks: frozenset[str]
    queues: frozenset[str] = frozenset({DEFAULT_QUEUE})
    labels: frozenset[str] = frozenset()
    resources: Resources = Resources()
    slots: Mapping[str, int] = {}  # by task, where it differs from the resources' slots
    version: str = ""  # of oncue; empty: one that cannot be drained on request
    takes_all: bool = False  # every run of its tasks: it is the only worker there is

    def room_for(self, task: str) -> Resources:
        """Return the most that a run of this task can get on this worker."""
        return msgspec.structs.replace(self.resources, slots=self.slots.get(task, self.resources.slots))


class Mismatch(IntEnum):
    """The first thing that a worker lacks, from the farthest to the closest match."""

    NO_TASK = 0
    NO_QUEUE = 1
    NO_LABELS = 2
    TOO_BIG = 3


def mismatch(key: ClassKey, offer: Offer) -> Mismatch | None:
    """Return the first thing that the worker lacks; None: it can run this class when it has a free slot."""
    if key.task not in offer.tasks:
        return Mismatch.NO_TASK
    if offer.takes_all:
        return None
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
    """Decode a worker's offer. None: unreadable, as from an older or newer version."""
    try:
        return None if info is None else _read_offer(info)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
