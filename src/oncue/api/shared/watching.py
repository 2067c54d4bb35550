"""Find changes for event streams: one task finds them for all, keeps them for a while, and each stream reads at its
speed.

Hints name the users with changes and trigger a scan; scans also run periodically, because hints get lost. A reader that
is too slow, resumes too late or has too many changes is told to read everything again.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

import msgspec
import structlog

from oncue.api import views
from oncue.api.http.store_watchdog import StoreWatchdog, WatchedCall
from oncue.api.shared.outcome import Changed, read_changed
from oncue.clock import Clock
from oncue.domain.errors import StoreUnavailable
from oncue.domain.ids import NOTICES, JobId, RunId, UserNumber
from oncue.domain.instants import MINUTE, SECOND, Duration, Instant, rfc3339
from oncue.domain.job import Snapshot
from oncue.domain.run import RunView, State
from oncue.engines.port import Engine, Hint, Topic
from oncue.supervised import Supervised

SCAN_INTERVAL = 0.25  # seconds between two scans: an object is reported at most this often
POLL = Duration(SECOND)  # between scans without a hint, or after one that found too much
HINTS_TIMEOUT = 2.0  # seconds for the hints to start, before a stream works without them
LATE = Duration(2 * SECOND)  # the end of a run may be written this long after its instant
MOST_FOUND = 1_000  # runs in one scan, running or ended
MOST_TOLD = 500  # changes in one scan, and jobs with hints between two
KEPT = 2_000  # events kept for readers that resume or are slow
KEPT_BYTES = 4 * 1024 * 1024  # the same, in bytes
AT_ONCE = 64 * 1024  # bytes sent to a reader before it takes the next; also of one event
KEPT_FOR = Duration(MINUTE)  # after the last reader has left

KnownOf = Callable[..., Awaitable[views.Known]]

log = structlog.get_logger()

_encode = msgspec.json.Encoder().encode
_RUN = (
    "run_id job_id job_name job_key task queue status trigger scheduled_for start_time end_time duration_ms"
    " modified_time attempt_number executor_id executor_name error_type error_message lag_ms progress"
).split()


class Channel:
    """The changes that one user may see, the latest of them kept; `uid` None: all users' changes."""

    def __init__(self, uid: UserNumber | None) -> None:
        self.uid = uid
        self.name = secrets.token_hex(4)  # so that a position in another process's channel is not taken for one of ours
        self.last = 0
        self.news = asyncio.Event()  # set and replaced by every change
        self.readers = 0
        self.left_at = Instant(0)
        self.stirred = False
        self.look_at = Instant(0)
        self.busy = False  # the last scan found too much: hints do not advance the next one
        self.first_look = asyncio.Lock()
        self.known: dict[RunId, object] | None = None  # what was last reported of each run; None: not scanned yet
        self.running: frozenset[RunId] = frozenset()
        self.seen_until = Instant(0)
        self._events: deque[bytes] = deque()
        self._bytes = 0

    def tell(self, kind: str, data: Any) -> None:
        self.last += 1
        event = self.written(kind, self.last, data)
        if len(event) > AT_ONCE:
            event = self.written("resync", self.last, {})
        self._events.append(event)
        self._bytes += len(event)
        while len(self._events) > KEPT or self._bytes > KEPT_BYTES:
            self._bytes -= len(self._events.popleft())
        self.news.set()
        self.news = asyncio.Event()

    def written(self, kind: str, place: int, data: Any) -> bytes:
        return b"event: %b\nid: %b\ndata: %b\n\n" % (kind.encode(), self.event_id(place).encode(), _encode(data))

    def event_id(self, place: int) -> str:
        return f"{self.name}-{place}"

    def place(self, event_id: str) -> int | None:
        """The position of an event id. None: the id is of another channel."""
        name, _, number = event_id.partition("-")
        known = name == self.name and number.isascii() and number.isdecimal() and len(number) < 20
        return int(number) if known and int(number) <= self.last else None

    def after(self, place: int | None) -> tuple[bytes, int]:
        """Return events after this position, up to the chunk size, and the new position. If some are no longer kept,
        return only the event that tells the reader to read everything again.
        """
        if place is None or self.last - place > len(self._events):
            return self.written("resync", self.last, {}), self.last
        chosen, size = list[bytes](), 0
        for event in islice(self._events, len(self._events) - (self.last - place), None):
            size += len(event)
            if size > AT_ONCE:
                break
            chosen.append(event)
        return b"".join(chosen), place + len(chosen)


class Watching:
    """Runs while there are streams, and a moment longer."""

    def __init__(self, engine: Engine, clock: Clock, watchdog: StoreWatchdog, known_of: KnownOf) -> None:
        self._engine = engine
        self._clock = clock
        self._watchdog = watchdog
        self._known_of = known_of
        self._channels: dict[UserNumber | None, Channel] = {}
        self.streams: Counter[UserNumber] = Counter()  # of each user
        self._jobs: dict[JobId, None] = {}  # to be reported, in this order
        self._hearing = asyncio.Event()
        self._tasks: tuple[Supervised, ...] = ()
        self._closing = asyncio.Event()

    @property
    def closed(self) -> bool:
        return self._closing.is_set()

    async def open(self, uid: UserNumber | None) -> Channel:
        """Open a channel that has all changes from now on."""
        channel = self._channels.setdefault(uid, Channel(uid))
        channel.left_at = self._clock.monotonic()
        if not self._tasks and not self.closed:
            self._tasks = (
                Supervised("hearing what changed", self._listen, self._clock),
                Supervised("looking at what changed", self._look, self._clock),
            )
        with suppress(TimeoutError):
            async with asyncio.timeout(HINTS_TIMEOUT):
                await self._hearing.wait()
        async with channel.first_look:
            if channel.known is None:
                await self._look_at(channel)
        return channel

    def leave(self, channel: Channel) -> None:
        channel.readers -= 1
        channel.left_at = self._clock.monotonic()

    async def close(self) -> None:
        """End every stream and all background tasks."""
        self._closing.set()
        for channel in self._channels.values():
            channel.news.set()
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            await task.stop()

    async def _listen(self) -> None:
        async for hint in self._engine.signals.listen():
            if hint.topic is Topic.CHANGED:
                self._heard(hint)

    def _heard(self, hint: Hint) -> None:
        if hint.target is None:
            if self._hearing.is_set():  # hints were missed, and jobs with them, which no scan finds
                self._read_anew(self._channels.values())
            self._hearing.set()
        elif changed := read_changed(hint.target):
            self._stir(changed)

    def _stir(self, changed: Changed) -> None:
        concerned = [self._channels[uid] for uid in (changed.uid, None) if uid in self._channels]
        for channel in concerned:
            channel.stirred = True
        if changed.job_id is not None and len(self._jobs) < MOST_TOLD:
            self._jobs[changed.job_id] = None
        elif changed.job_id is not None or changed.jobs:
            self._read_anew(concerned)

    def _read_anew(self, channels: Iterable[Channel]) -> None:
        for channel in channels:
            channel.tell("resync", {})

    async def _look(self) -> None:
        while self._channels and not self.closed:
            with suppress(TimeoutError):
                async with asyncio.timeout(SCAN_INTERVAL):
                    await self._closing.wait()
            try:
                with WatchedCall(self._watchdog):
                    await self._look_once()
            except StoreUnavailable:
                pass  # the next scan finds what changed meanwhile
            except Exception:
                log.exception("A scan for changes failed; the next one follows", kind="watching_failed")
            self._forget()

    async def _look_once(self) -> None:
        jobs, now = list(self._jobs), self._clock.monotonic()
        for channel in list(self._channels.values()):
            if channel.look_at <= now or (channel.stirred and not channel.busy):
                await self._look_at(channel)
        for job_id in jobs:
            snap = await self._engine.jobs.read(None, job_id)
            self._jobs.pop(job_id, None)
            if snap is None:
                continue
            for uid in (snap.job.uid, None):
                if uid in self._channels:
                    self._channels[uid].tell("job", _job(snap))

    def _forget(self) -> None:
        """Drop channels without a reader for a while; with the last one, stop listening."""
        now = self._clock.monotonic()
        idle = [uid for uid, one in self._channels.items() if not one.readers and now - one.left_at > KEPT_FOR]
        for uid in idle:
            del self._channels[uid]
        if not self._channels:
            for task in self._tasks:
                task.cancel()
            self._tasks, self._hearing = (), asyncio.Event()

    async def _look_at(self, channel: Channel) -> None:
        """Report runs that changed since the last scan; the first scan only remembers them."""
        channel.stirred = False
        channel.look_at = Instant(self._clock.monotonic() + POLL)
        now = self._clock.now()
        since = Instant(min(channel.seen_until or now, now) - LATE)
        recent = await self._engine.lists.recent(channel.uid, since, MOST_FOUND)
        found = {run.run_id: run for run in recent if run.job_id != NOTICES}
        running = frozenset(run_id for run_id, run in found.items() if run.state is State.RUNNING)
        before = {} if channel.known is None else channel.known
        stopped = channel.running - found.keys()
        news = [run for run in found.values() if before.get(run.run_id) != _as_told(run)]
        too_many = len(recent) >= MOST_FOUND or len(news) + len(stopped) > MOST_TOLD
        channel.busy = too_many
        if channel.known is not None and not too_many:
            news += await self._read(channel.uid, stopped)
            await self._tell(channel, news, now)
        elif channel.known is not None and (news or stopped):
            channel.tell("resync", {})
        channel.known = {run.run_id: _as_told(run) for run in found.values()}
        channel.running, channel.seen_until = running, now

    async def _read(self, uid: UserNumber | None, run_ids: frozenset[RunId]) -> list[RunView]:
        """Read runs that no longer run and did not just end: they are retried, or their end was written late."""
        found = [await self._engine.history.run(uid, run_id) for run_id in sorted(run_ids)]
        return [run for run in found if run is not None]

    async def _tell(self, channel: Channel, runs: Sequence[RunView], now: Instant) -> None:
        known = await self._known_of(*runs)
        for run in runs:
            shown = views.run(run, known, now)
            channel.tell("run", {name: shown[name] for name in _RUN})


def _as_told(run: RunView) -> object:
    return run.state, run.token, run.cancel_at, run.progress


def _job(snap: Snapshot) -> dict[str, Any]:
    next_at = views.next_run_at(snap)
    return {
        "job_id": snap.job.job_id,
        "name": snap.job.spec.name,
        "task": snap.job.spec.task,
        "status": snap.job.status,
        "next_run_at": None if next_at is None else rfc3339(next_at),
        "updated_at": rfc3339(snap.job.updated_at),
        "version": snap.job.version,
    }
