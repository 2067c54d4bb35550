"""A channel of events: the changes that some streams have in common, the latest of them kept."""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from enum import StrEnum
from itertools import islice
from typing import Any

import msgspec

from oncue.domain.ids import JobId, RunId, UserNumber
from oncue.domain.instants import Instant

KEPT = 2_000  # events kept for readers that resume or are slow
KEPT_BYTES = 4 * 1024 * 1024  # the same, in bytes
AT_ONCE = 64 * 1024  # bytes sent to a reader before it takes the next; also of one event
RESYNC = "resync"

_encode = msgspec.json.Encoder().encode


class Kind(StrEnum):
    """The types of events that a stream can be narrowed to. `resync` comes with all of them."""

    RUN = "run"
    JOB = "job"
    DEAD = "dead"
    WORKER = "worker"
    QUEUE = "queue"
    PULSE = "pulse"


OF_RUNS = frozenset({Kind.RUN, Kind.DEAD})
OF_ONE_JOB = frozenset({*OF_RUNS, Kind.JOB})
STORED = frozenset(Kind) - {Kind.PULSE}


class Subject(msgspec.Struct, frozen=True):
    """Whose changes: one user's, or with None all users'; or only those of one job or run of this user."""

    uid: UserNumber | None
    job_id: JobId | None = None
    run_id: RunId | None = None

    @property
    def narrow(self) -> bool:
        return self.job_id is not None or self.run_id is not None

    def has_job(self, uid: UserNumber, job_id: JobId) -> bool:
        return self.uid in (None, uid) and self.run_id is None and self.job_id in (None, job_id)


class Channel:
    """The changes of one subject."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.name = secrets.token_hex(4)  # so that a position in another process's channel is not taken for one of ours
        self.last = 0
        self.news = asyncio.Event()  # set and replaced by every change
        self.readers = 0
        self.left_at = Instant(0)
        self.scans = 0  # that hints have asked for
        self.look_at = Instant(0)
        self.busy = False  # the last scan found too much: hints do not advance the next one
        self.first_look = asyncio.Lock()
        self.known: dict[RunId, object] | None = None  # what was last reported of each run; None: not scanned yet
        self.running: frozenset[RunId] = frozenset()
        self.seen_until = Instant(0)
        self.pulse_readers = 0
        self.pulse = b""  # the latest; earlier ones are of no use to any reader
        self.pulses = 0
        self._events: deque[tuple[frozenset[str], bytes]] = deque()  # and who gets it: readers of any of these types
        self._bytes = 0

    def tell(self, kind: str, data: Any, to: frozenset[str] | None = None) -> None:
        self.last += 1
        event = self.written(kind, self.last, data)
        if len(event) > AT_ONCE:
            event = self.written(RESYNC, self.last, {})
        self._events.append((to or frozenset({kind}), event))
        self._bytes += len(event)
        while len(self._events) > KEPT or self._bytes > KEPT_BYTES:
            self._bytes -= len(self._events.popleft()[1])
        self._stir()

    def tell_pulse(self, data: Any) -> None:
        """Send a pulse to readers that follow now. It has no id: whoever resumes gets the next one."""
        self.pulse = b"event: %b\ndata: %b\n\n" % (Kind.PULSE.encode(), _encode(data))
        self.pulses += 1
        self._stir()

    def _stir(self) -> None:
        self.news.set()
        self.news = asyncio.Event()

    def resync(self, about: frozenset[str] = STORED) -> None:
        """Tell readers of these types to read everything again."""
        self.tell(RESYNC, {}, about)

    def written(self, kind: str, place: int, data: Any) -> bytes:
        return b"event: %b\nid: %b\ndata: %b\n\n" % (kind.encode(), self.event_id(place).encode(), _encode(data))

    def event_id(self, place: int) -> str:
        return f"{self.name}-{place}"

    def place(self, event_id: str) -> int | None:
        """The position of an event id. None: the id is of another channel."""
        name, _, number = event_id.partition("-")
        known = name == self.name and number.isascii() and number.isdecimal() and len(number) < 20
        return int(number) if known and int(number) <= self.last else None

    def after(self, place: int | None, types: frozenset[str] = STORED) -> tuple[bytes, int]:
        """Return events of these types after this position, up to the chunk size, and the new position.

        If some are no longer kept, return only the event that tells the reader to read everything again.
        """
        if place is None or self.last - place > len(self._events):
            return self.written(RESYNC, self.last, {}), self.last
        chosen, size = list[bytes](), 0
        for to, event in islice(self._events, len(self._events) - (self.last - place), None):
            if to & types:
                size += len(event)
                if size > AT_ONCE:
                    break
                chosen.append(event)
            place += 1
        return b"".join(chosen), place
