"""The keeper: starts a worker process, beats for it, and starts another when it ends.

No user code runs here, so neither a blocked loop nor a held GIL keeps a beat from being sent. The worker's loop shows
that it turns; one that is stuck for longer than its lease is ended. A worker whose beats do not reach the store is
ended before its lease is: what it was doing starts elsewhere then.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
import sys
from contextlib import suppress

import structlog

from oncue.clock import Clock
from oncue.domain.errors import StoreUnavailable
from oncue.domain.ids import ClassId, WorkerId, uuid7
from oncue.domain.instants import SECOND, Duration, Instant
from oncue.domain.run import Claimed
from oncue.engines.port import Engine
from oncue.services.channel import Beaten, Channel, Drain, FromWorker, Left, Ready, Start, Unusable
from oncue.services.environment import without_ours
from oncue.settings import Settings

UNUSABLE = 78  # the exit code of a worker that could not start as it is set up
BEATS = 5  # in one lease
HASTE = (
    3  # in place of one that has not arrived after a third of its period another is sent; of one that failed, sooner
)
SAFE = 0.8  # of a lease: a worker that was not heard for so long is ended
SOON_DEAD = Duration(5 * SECOND)  # a worker that lived no longer than this makes the next one wait
LAST_WORDS = Duration(10 * SECOND)  # after the grace times, to write down what was done, before a worker is killed
NOT_YET = Duration(2 * SECOND)  # for one that has not started to work, and so has nothing to finish

log = structlog.get_logger()


class Kept:
    """One worker process, from its start to its end."""

    def __init__(
        self, worker_id: WorkerId, process: asyncio.subprocess.Process, channel: Channel, now: Instant
    ) -> None:
        self.worker_id = worker_id
        self.process = process
        self.channel = channel
        self.started_at = self.alive_at = self.beaten_at = now  # monotonic
        self.classes: tuple[ClassId, ...] = ()
        self.told: tuple[ClassId, ...] | None = None  # the store, of these
        self.registered = self.buried = False
        self.left: tuple[Claimed, ...] = ()
        self.problem: str | None = None

    @classmethod
    async def start(cls, clock: Clock, settings: Settings) -> Kept:
        worker_id = WorkerId(uuid7(clock.now(), secrets.token_bytes(8)))
        ours, theirs = socket.socketpair()
        with theirs:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-P", "-m", "oncue.app", "worker", str(theirs.fileno()), str(os.getpid())),
                pass_fds=[theirs.fileno()],
                stdin=asyncio.subprocess.DEVNULL,
                env=without_ours(os.environ),  # it gets its settings from us; tasks would find what is there
                start_new_session=True,  # the terminal's Ctrl-C is for us: we tell the worker
            )
        channel = await Channel.on(ours, FromWorker)
        channel.send(Start(worker_id, settings))
        return cls(worker_id, process, channel, clock.monotonic())

    def kill(self) -> None:
        if self.process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def sweep(self) -> None:
        """It has ended this moment: whatever tasks in its threads have left in its process group ends, too."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)

    async def end(self) -> None:
        """It is gone when this returns."""
        self.kill()
        await self.process.wait()
        await self.channel.close()


class Keeper:
    """`first` is a worker process that was started already."""

    def __init__(self, engine: Engine, clock: Clock, settings: Settings, first: Kept | None = None) -> None:
        self._engine = engine
        self._clock = clock
        self._settings = settings
        self._first = first
        self._kept: Kept | None = None
        self._stops = 0
        self._told = asyncio.Event()  # to stop
        self.working = asyncio.Event()  # a worker has announced its tasks and begins to take runs
        self.problem: str | None = None  # why no worker can be started like this

    def stop(self) -> None:
        """Let the worker finish, within its grace time. Asked a second time: at once."""
        self._stops += 1
        self._told.set()
        if self._kept is not None:
            self._kept.channel.send(Drain(at_once=self._stops > 1))

    async def run(self) -> None:
        """Returns when told to stop and the worker has; or when no worker can be started: then `problem` says why."""
        pause = 0.0
        while not self._told.is_set():
            kept = self._kept = await self._start()
            try:
                await self._watch(kept)
            finally:
                await self._bury(kept)
            if kept.problem is not None:
                self.problem = kept.problem
                return
            if not self._told.is_set():
                log.warning("a worker process ended; another takes its place", exit_code=kept.process.returncode)
            short = self._clock.monotonic() - kept.started_at < SOON_DEAD
            pause = min(max(2 * pause, 0.1), 5.0) if short else 0.0
            await _happens_within(self._told, pause)

    async def _start(self) -> Kept:
        kept = self._first or await Kept.start(self._clock, self._settings)
        self._first = None
        if self._told.is_set():
            kept.channel.send(Drain(at_once=self._stops > 1))
        return kept

    async def _watch(self, kept: Kept) -> None:
        """Until the process has ended, by itself or by us."""
        tasks = [asyncio.create_task(self._listen(kept)), asyncio.create_task(self._beat_on(kept))]
        tasks.append(asyncio.create_task(self._lose_patience(kept)))
        try:
            await kept.process.wait()
            kept.sweep()
            await asyncio.wait(tasks[:1], timeout=1)  # its last words
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _listen(self, kept: Kept) -> None:
        while (said := await kept.channel.receive()) is not None:
            kept.alive_at = self._clock.monotonic()
            match said:
                case Ready(classes):
                    if not kept.registered:
                        kept.beaten_at = kept.alive_at
                    kept.registered, kept.classes = True, classes
                    self.working.set()
                case Left(runs):
                    kept.left = runs
                case Unusable(problem):
                    kept.problem = problem
                case _:
                    pass  # it is alive, and that is all it had to say

    async def _beat_on(self, kept: Kept) -> None:
        """Beats, and an end to a worker that is stuck, buried or cannot be vouched for.

        A beat under way keeps no other from being sent: it may hang on a connection that is worth nothing any more
        while the store is back. The newest that has arrived decides.
        """
        every = Duration(self._settings.lease // BEATS)
        async with asyncio.TaskGroup() as under_way:
            while not self._ends(kept):
                asked_at = self._clock.monotonic()
                if kept.registered:
                    beat = under_way.create_task(self._beat(kept, asked_at, every))
                    await self._done_within(beat, Duration(every // HASTE))
                    if kept.beaten_at < asked_at:  # lost, and the store may be back any moment; or still under way
                        await self._clock.sleep(Duration(every // HASTE**2 if beat.done() and not kept.buried else 0))
                        continue
                await self._clock.sleep(Duration(max(0, asked_at + every - self._clock.monotonic())))
            kept.kill()

    def _ends(self, kept: Kept) -> bool:
        now, lease = self._clock.monotonic(), self._settings.lease
        if kept.buried:
            log.warning("this worker was declared dead; another takes its place", worker_id=str(kept.worker_id))
        elif kept.registered and now - kept.beaten_at > SAFE * lease:
            log.error("no beat reaches the store; the worker is ended before its lease is")
        elif kept.registered and now - kept.alive_at > lease:
            log.error("the worker's loop is stuck for longer than its lease; it is ended and another started")
        else:
            return False
        return True

    async def _done_within(self, beat: asyncio.Task[None], length: Duration) -> None:
        waiting = asyncio.ensure_future(self._clock.sleep(length))
        try:
            await asyncio.wait({beat, waiting}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()

    async def _beat(self, kept: Kept, asked_at: Instant, patience: Duration) -> None:
        """A store that is away is no answer."""
        classes = kept.classes
        news = None if classes == kept.told else classes
        try:
            async with asyncio.timeout(patience / SECOND):
                beat = await self._engine.fleet.beat(
                    kept.worker_id, self._clock.now(), draining=self._told.is_set(), classes=news
                )
        except (StoreUnavailable, TimeoutError):
            return
        if beat is None:
            kept.buried = True
        elif asked_at >= kept.beaten_at:
            kept.beaten_at, kept.told = asked_at, classes
            kept.channel.send(Beaten(asked_at, beat.place, beat.peers))

    async def _lose_patience(self, kept: Kept) -> None:
        await self._told.wait()
        working = self._settings.grace + self._settings.stop_grace + LAST_WORDS
        await self._clock.sleep(Duration(working if kept.registered else NOT_YET))
        log.error("the worker did not end in its grace time; it is killed")
        kept.kill()

    async def _bury(self, kept: Kept) -> None:
        """It is gone for certain. What it left unstopped is handed back unspent; what it held otherwise was lost."""
        await kept.end()
        if self._kept is kept:
            self._kept = None
        with suppress(StoreUnavailable):  # then its silence says the same, a little later
            if kept.left:
                await self._engine.running.hand_back(kept.worker_id, kept.left, self._clock.now())
            await self._engine.fleet.leave(kept.worker_id)


async def _happens_within(event: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
