"""How busy a worker is, as it says with its heartbeats, and how many workers a queue needs.

The second follows from how busy the workers are, and from the work that is due. Neither the number of waiting runs (ten
thousand runs of a millisecond are nothing) nor the processor time of workers (an async worker mostly waits) says it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil

import msgspec

from oncue.domain.ids import ClassId
from oncue.domain.instants import MICROSECOND, SECOND, Duration


class Load(msgspec.Struct, frozen=True, omit_defaults=True):
    """Stored as JSON, and sent between processes: new fields need a default, and unknown ones are ignored."""

    slots: Mapping[str, int] = {}  # by kind: loop, thread, process
    used: Mapping[str, int] = {}  # of these
    busy: float = 0.0  # share of the time that its event loop was busy, lately
    mean: Mapping[ClassId, Duration] = {}  # of a run, by class: over about the last minute in which one ended
    cpu_milli: int = 0  # that its runs asked for
    memory_mb: int = 0
    running: int | None = None  # its active runs; None: it does not say
    full: tuple[ClassId, ...] = ()  # the classes of due runs that it knows and has no room for


def free_slots(load: Load) -> dict[str, int]:
    return {kind: max(0, slots - load.used.get(kind, 0)) for kind, slots in load.slots.items()}


show_load = msgspec.json.Encoder().encode
_read_load = msgspec.json.Decoder(Load).decode


def read_load(stored: bytes | None) -> Load | None:
    """Decode a worker's load. None: it has said nothing, or what another version means."""
    try:
        return None if stored is None else _read_load(stored)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


TARGET = 0.7  # utilisation to aim at: the rest is for bursts
DRAIN = Duration(30 * SECOND)  # what is due should have started after this time
LEAST_PER_RUN = Duration(40 * MICROSECOND)  # a worker starts 25,000 runs a second at most
UNKNOWN_MEAN = Duration(SECOND)  # of a class no run of which has ended lately


class DueWork(msgspec.Struct, frozen=True):
    """The due runs of one class, and what each of them takes of a worker."""

    due: int
    mean: Duration | None  # how long a run takes; None: unknown
    slots_per_run: int
    slots: int  # that one worker has for such runs

    @property
    def time(self) -> float:
        """Microseconds that one worker would need for all of it."""
        each = (UNKNOWN_MEAN if self.mean is None else self.mean) * self.slots_per_run / max(self.slots, 1)
        return self.due * max(each, LEAST_PER_RUN)


def utilisation(loads: Sequence[Load | None]) -> float:
    """The mean share of these workers that is in use: of their slots, or of their event loops, whichever is more.

    A worker that does not say counts as used just as intended: it changes nothing.
    """
    if not loads:
        return 0.0
    return sum(TARGET if load is None else _used(load) for load in loads) / len(loads)


def _used(load: Load) -> float:
    shares = (load.used.get(kind, 0) / slots for kind, slots in load.slots.items() if slots)
    return min(1.0, max([load.busy, *shares]))


def desired_workers(loads: Sequence[Load | None], work: Sequence[DueWork]) -> int:
    """Return how many workers there should be. It may fall at once: damping is the autoscaler's business."""
    for_now = len(loads) * utilisation(loads) / TARGET
    for_backlog = sum(one.time for one in work) / DRAIN
    least = 1 if any(one.due for one in work) else 0
    return max(least, ceil(round(for_now + for_backlog, 6)))
