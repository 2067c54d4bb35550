"""How a run's log is put together from its parts."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from oncue.domain.ids import WorkerId
from oncue.domain.instants import Instant, rfc3339
from oncue.domain.reference import MARK

PARTS = 1 << 16  # of one attempt's log; the next attempt's parts are numbered after them
NOTES = 1 << 39  # two for each start, which are no text: after the parts of all starts, so that no reader passes them


def start_of(number: int) -> int:
    """Which start of the run wrote the part with this number: 1, 2, …"""
    return number // PARTS


def last_of(start: int) -> int:
    """The number after those of all parts that this start can have written, and before those of the next one."""
    return (start + 1) * PARTS - 1


def next_start(start: int, at: Instant) -> bytes:
    """The line between the logs of two starts. `at`: when the first part of the second was stored."""
    return f"── start {start}, {rfc3339(at)} ──\n".encode()


def delayed(start: int) -> int:
    """The number of the note that a worker waits to store the rest of what this start wrote; its text is `waits`."""
    return NOTES + 2 * start


def caught_up(start: int) -> int:
    """The number of the note that the rest is stored, or given up. It has no text."""
    return delayed(start) + 1


def waits(worker_id: WorkerId) -> bytes:
    """The text of a note: which worker waits. It begins like a reference, so it counts as no text of the log."""
    return MARK + worker_id.hex.encode()


def waiting(notes: Iterable[tuple[int, bytes]]) -> dict[int, WorkerId]:
    """The starts whose rest is not stored yet, and the workers that wait to store it."""
    told = dict(notes)
    late = (number for number in told if number % 2 == 0 and number + 1 not in told)
    return {(number - NOTES) // 2: WorkerId(UUID(hex=told[number][1:].decode())) for number in late}
