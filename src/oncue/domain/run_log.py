"""How a run's log is put together from its parts."""

from __future__ import annotations

from oncue.domain.instants import Instant, rfc3339

PARTS = 1 << 16  # of one attempt's log; the next attempt's parts are numbered after them


def start_of(number: int) -> int:
    """Which start of the run wrote the part with this number: 1, 2, …"""
    return number // PARTS


def next_start(start: int, at: Instant) -> bytes:
    """The line between the logs of two starts. `at`: when the first part of the second was stored."""
    return f"── start {start}, {rfc3339(at)} ──\n".encode()
