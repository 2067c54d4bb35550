"""How busy a worker is, as it says with its heartbeats."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from oncue.domain.ids import ClassId
from oncue.domain.instants import Duration


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
