"""Parts put together: a run's log from those that were stored, and sums from the last runs of a job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any
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


def spread(values: Iterable[int | None]) -> dict[str, int | None]:
    """The median, the 95th percentile and the largest value: each is one of the values."""
    known = sorted(value for value in values if value is not None)
    return {"p50": _share(known, 50), "p95": _share(known, 95), "max": known[-1] if known else None}


def _share(known: Sequence[int], percent: int) -> int | None:
    """The smallest value that so many percent of all do not exceed."""
    return known[-(-len(known) * percent // 100) - 1] if known else None


def outcomes(states: Sequence[str], all_of: Sequence[str]) -> dict[str, Any]:
    """How many runs ended in each way, and the share that succeeded; cancelled runs say nothing of that."""
    counted = Counter(states)
    tried = len(states) - counted["cancelled"]
    return {
        "outcomes": {state: counted[state] for state in all_of},
        "success_rate": round(counted["succeeded"] / tried, 4) if tried else None,
    }
