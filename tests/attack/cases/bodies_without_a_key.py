"""Bodies without end from callers without a key: all of them were read to the end, gigabytes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from tests.attack.stage import Stage

from oncue.api.http.connection import MOST_IGNORED

BUSY = True
SENDERS = 4
GIGABYTE = 1024**3
HEAD = b"POST /v1/jobs HTTP/1.1\r\nHost: oncue\r\nContent-Length: %d\r\n\r\n" % (4 * GIGABYTE)
PART = b" " * 1024 * 1024
BUFFERED = 64 * 1024 * 1024  # bytes that the system takes from a sender whose receiver reads nothing


def attack(stage: Stage) -> None:
    with ThreadPoolExecutor(SENDERS) as senders:
        taken = list(senders.map(_send, [stage] * SENDERS))
    assert max(taken) < MOST_IGNORED + BUFFERED, f"{max(taken)} bytes were taken"


def _send(stage: Stage) -> int:
    """The most that was taken of one body."""
    most = 0
    for _ in stage.during(6):
        taken = 0
        with stage.connect() as wire, suppress(OSError):
            wire.sendall(HEAD)
            while taken < GIGABYTE:
                taken += wire.send(PART)
        most = max(most, taken)
    return most
