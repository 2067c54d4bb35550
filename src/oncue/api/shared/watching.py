"""Find changes for event streams: one task finds them for all, keeps them for a while, and each stream reads at its
speed.

Hints name the users with changes and trigger a scan at once, and another one a moment later, for changes whose hint
was left out so soon after the last; scans also run periodically, because hints get lost. A reader that is too slow,
resumes too late or has too many changes is told to read everything again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import suppress
from typing import Any

from oncue.api import views
from oncue.api.http.store_watchdog import StoreWatchdog, WatchedCall
from oncue.api.shared.event_channel import OF_RUNS, Channel, Kind, Subject
from oncue.api.shared.fleet_changes import FleetChanges
from oncue.api.shared.outcome import Changed, read_changed
from oncue.api.shared.pulse import Pulses
from oncue.clock import Clock
from oncue.domain.errors import StoreUnavailable
from oncue.domain.fingerprint import show_fingerprint
from oncue.domain.ids import NOTICES, JobId, RunId, UserNumber
from oncue.domain.instants import MINUTE, SECOND, Duration, Instant, rfc3339
from oncue.domain.job import Snapshot
from oncue.domain.placement import SYSTEM_QUEUE
from oncue.domain.run import RunView, State
from oncue.engines.port import Engine, Hint, Topic
from oncue.log import log
from oncue.restarting import Supervised

SCAN_INTERVAL = 0.25  # seconds from a scan to the next one: an object is reported at most this often
SCANS = 2  # after a hint
POLL = Duration(SECOND)  # between scans without a hint, or after one that found too much
HINTS_TIMEOUT = 2.0  # seconds for the hints to start, before a stream works without them
LATE = Duration(2 * SECOND)  # the end of a run may be written this long after its instant
MOST_FOUND = 1_000  # runs in one scan, running or ended
MOST_TOLD = 500  # changes in one scan, and jobs with hints between two
KEPT_FOR = Duration(MINUTE)  # after the last reader has left

KnownOf = Callable[..., Awaitable[views.Known]]


_RUN = (
    "run_id job_id job_name job_key task queue status trigger scheduled_for due_time start_time end_time duration_ms"
    " modified_time attempt_number executor_id executor_name error_type error_message lag_ms progress"
).split()
_DEAD = "run_id job_id job_name task end_time error_type error_message".split()


class Watching:
    """Runs while there are streams, and a moment longer."""

    def __init__(self, engine: Engine, clock: Clock, watchdog: StoreWatchdog, known_of: KnownOf) -> None:
        self._engine = engine
        self._clock = clock
        self._watchdog = watchdog
        self._known_of = known_of
        self._channels: dict[Subject, Channel] = {}
        self.streams: Counter[UserNumber] = Counter()  # of each user
        self._jobs: dict[JobId, None] = {}  # to be reported, in this order
        self._fleet = FleetChanges(engine, clock)
        self._pulses = Pulses(engine, clock)
        self._look_at_fleet = self._pulse_at = Instant(0)
        self._hearing = asyncio.Event()
        self._hinted = asyncio.Event()  # since the last scan
        self._tasks: tuple[Supervised, ...] = ()
        self._closing = asyncio.Event()

    @property
    def closed(self) -> bool:
        return self._closing.is_set()

    async def open(self, subject: Subject) -> Channel:
        """Open a channel that has all changes from now on."""
        channel = self._channels.setdefault(subject, Channel(subject))
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
            if not subject.narrow and not self._fleet.looked:
                self._look_at_fleet = Instant(self._clock.monotonic() + POLL)
                await self._fleet.look()
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
        async for hint in self._engine.signals.listen({Topic.CHANGED}):
            self._heard(hint)

    def _heard(self, hint: Hint) -> None:
        if hint.target is None:
            if self._hearing.is_set():  # hints were missed, and jobs with them, which no scan finds
                self._read_anew(self._channels.values())
            self._hearing.set()
        elif changed := read_changed(hint.target):
            self._stir(changed)

    def _stir(self, changed: Changed) -> None:
        concerned = [one for one in self._channels.values() if one.subject.uid in (changed.uid, None)]
        for channel in concerned:
            channel.scans = SCANS
        if concerned:
            self._hinted.set()
        if changed.job_id is not None and len(self._jobs) < MOST_TOLD:
            self._jobs[changed.job_id] = None
        elif changed.job_id is not None or changed.jobs:
            self._read_anew(concerned)

    def _read_anew(self, channels: Iterable[Channel]) -> None:
        """Make up for jobs that were not named: a channel of one job has it read, the others have readers do that."""
        for channel in channels:
            if channel.subject.job_id is not None:
                self._jobs[channel.subject.job_id] = None
            elif not channel.subject.narrow:
                channel.resync(frozenset({Kind.JOB}))

    async def _look(self) -> None:
        looked = False
        while self._channels and not self.closed:
            with suppress(TimeoutError):
                async with asyncio.timeout(SCAN_INTERVAL):
                    await (self._closing if looked else self._hinted).wait()
            looked = True
            self._hinted.clear()
            try:
                with WatchedCall(self._watchdog):
                    looked = await self._look_once()
            except StoreUnavailable:
                pass  # the next scan finds what changed meanwhile
            except Exception:
                log.exception("A scan for changes failed; the next one follows", kind="watching_failed")
            self._forget()

    async def _look_once(self) -> bool:
        """Report what changed, where it is time to look. False: nowhere, for runs and jobs."""
        jobs, now = list(self._jobs), self._clock.monotonic()
        channels = [one for one in self._channels.values() if one.look_at <= now or (one.scans and not one.busy)]
        for channel in channels:
            await self._look_at(channel)
        for job_id in jobs:
            snap = await self._engine.jobs.read(None, job_id)
            self._jobs.pop(job_id, None)
            if snap is None:
                continue
            for channel in self._channels.values():
                if channel.subject.has_job(snap.job.uid, job_id):
                    channel.tell(Kind.JOB, _job(snap))
        if self._look_at_fleet <= now:
            self._look_at_fleet = Instant(now + POLL)
            await self._look_at_the_fleet()
        if self._pulse_at <= now:
            self._pulse_at = Instant(now + POLL)
            for channel in [one for one in self._channels.values() if one.pulse_readers]:
                channel.tell_pulse(await self._pulses.read(channel.subject.uid))
        return bool(channels or jobs)

    def _forget(self) -> None:
        """Drop channels without a reader for a while; with the last one, stop listening."""
        now = self._clock.monotonic()
        idle = [subject for subject, one in self._channels.items() if not one.readers and now - one.left_at > KEPT_FOR]
        for subject in idle:
            del self._channels[subject]
        for subject in [one.subject for one in self._channels.values() if not one.pulse_readers] + idle:
            if not subject.narrow:
                self._pulses.forget(subject.uid)
        if all(subject.narrow for subject in self._channels):
            self._fleet.forget()
        if not self._channels:
            for task in self._tasks:
                task.cancel()
            self._tasks, self._hearing = (), asyncio.Event()

    async def _look_at(self, channel: Channel) -> None:
        """Report runs that changed since the last scan; the first scan only remembers them."""
        channel.scans = max(0, channel.scans - 1)
        channel.look_at = Instant(self._clock.monotonic() + POLL)
        now = self._clock.now()
        since = Instant(min(channel.seen_until or now, now) - LATE)
        recent = await self._recent(channel.subject, since)
        found = {run.run_id: run for run in recent if run.job_id != NOTICES}
        running = frozenset(run_id for run_id, run in found.items() if run.state is State.RUNNING)
        before = {} if channel.known is None else channel.known
        stopped = channel.running - found.keys()
        news = [run for run in found.values() if before.get(run.run_id) != _as_told(run)]
        too_many = len(recent) >= MOST_FOUND or len(news) + len(stopped) > MOST_TOLD
        channel.busy = too_many
        if channel.known is not None and not too_many:
            news += await self._read(channel.subject.uid, stopped)
            await self._tell(channel, news, now)
        elif channel.known is not None and (news or stopped):
            channel.resync(OF_RUNS)
        channel.known = {run.run_id: _as_told(run) for run in found.values()}
        channel.running, channel.seen_until = running, now

    async def _recent(self, subject: Subject, since: Instant) -> list[RunView]:
        """Read what runs and what has changed lately. Of one job or run only that: others may do as much as they do."""
        if subject.run_id is not None:
            run = await self._engine.history.run(subject.uid, subject.run_id)
            return [] if run is None else [run]
        if subject.job_id is not None:
            assert subject.uid is not None, "a job has an owner"
            return await self._engine.lists.recent_of_job(subject.uid, subject.job_id, since, MOST_FOUND)
        return await self._engine.lists.recent(subject.uid, since, MOST_FOUND)

    async def _read(self, uid: UserNumber | None, run_ids: frozenset[RunId]) -> list[RunView]:
        """Read runs that no longer run and did not just end: they are retried, or their end was written late."""
        found = [await self._engine.history.run(uid, run_id) for run_id in sorted(run_ids)]
        return [run for run in found if run is not None]

    async def _tell(self, channel: Channel, runs: Sequence[RunView], now: Instant) -> None:
        known = await self._known_of(*runs)
        dead = [run.run_id for run in runs if run.state is State.DEAD]
        fingerprints = await self._engine.errors.fingerprints(dead) if dead else {}
        for run in runs:
            shown = views.run(run, known, now)
            channel.tell(Kind.RUN, {name: getattr(shown, name) for name in _RUN})
            if run.state is State.DEAD:
                found = fingerprints.get(run.run_id)
                fingerprint = None if found is None else show_fingerprint(found)
                channel.tell(Kind.DEAD, {**{name: getattr(shown, name) for name in _DEAD}, "fingerprint": fingerprint})

    async def _look_at_the_fleet(self) -> None:
        channels = [one for one in self._channels.values() if not one.subject.narrow]
        if not channels:
            return
        found = await self._fleet.look()
        for channel in channels:
            for worker in found.workers:
                channel.tell(Kind.WORKER, worker)
            for queue in found.queues:
                if await self._may_see(channel.subject.uid, queue["name"], found.offered):
                    channel.tell(Kind.QUEUE, queue)

    async def _may_see(self, uid: UserNumber | None, queue: str, offered: Collection[str]) -> bool:
        """Whether `GET /queues` shows this user the queue. Queues are seldom paused, so this costs little."""
        if uid is None or (queue in offered and queue != SYSTEM_QUEUE):
            return True
        counters = await self._engine.history.counters(uid)
        classes = await self._engine.jobs.classes()
        own = {classes[one.class_id].queue for one in counters if one.class_id in classes}
        return queue in own - {SYSTEM_QUEUE}


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
