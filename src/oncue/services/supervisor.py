"""The supervisor: starts a worker process, sends its heartbeats, and starts another when it ends.

No user code runs here, so neither a blocked loop nor a held GIL delays a heartbeat. The worker's loop reports that it
is not blocked; a worker blocked for longer than its lease is killed. A worker whose heartbeats do not reach the store
is killed before its lease ends, because its runs start elsewhere then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from oncue.clock import Clock, happens_within
from oncue.domain.errors import StoreUnavailable
from oncue.domain.ids import WorkerId
from oncue.domain.instants import MINUTE, SECOND, Duration, Instant
from oncue.domain.load import show_load
from oncue.engines.known_defaults import KnownDefaults
from oncue.engines.port import Engine
from oncue.log import log
from oncue.metrics import table
from oncue.metrics.exposed import Exposed
from oncue.metrics.metric import Labels, Roles
from oncue.services.capacity import Left
from oncue.services.channel import (
    Alive,
    Beaten,
    Counted,
    Drain,
    Known,
    Ready,
    Unstopped,
    Unusable,
    Worn,
)
from oncue.services.supervised_worker import SupervisedWorker
from oncue.services.taken_queues import TakenQueues
from oncue.settings import Settings
from oncue.tasks.schedules import DeclaredSet

UNUSABLE = 78  # the exit code of a worker that cannot start with its configuration
BEATS = 5  # in one lease
HASTE = 3  # a heartbeat without an answer after a third of its period is sent again; a failed one sooner
SAFE = 0.8  # of a lease: a worker without a heartbeat for this long is killed
SOON_DEAD = Duration(5 * SECOND)  # a worker that lived no longer than this delays the next start
LAST_WORDS = Duration(10 * SECOND)  # after the grace times, to write outcomes, before a worker is killed
FIRST_PAUSE, LONGEST_PAUSE = Duration(SECOND // 10), Duration(5 * SECOND)  # before the next start, after failures
MOST_WORN = 2  # replaced workers that have not ended
REPLACE_AGAIN = Duration(10 * SECOND)  # at the earliest
KNOWN_FOR = Duration(10 * MINUTE)  # how long a user counts as one who wore out a worker
NOT_YET = Duration(2 * SECOND)  # for a worker that has not started to work, and so has nothing to finish


class WorkerSupervisor:
    """Supervises worker processes. `first` is one that was started already.

    There is one at a time, except for **worn** ones: too many attempts run in them that cannot be stopped. Then another
    worker is started in addition; when it takes runs, the worn one takes no more, and ends once its runs are over.
    """

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        settings: Settings,
        first: SupervisedWorker | None = None,
        exposed: Exposed | None = None,
    ) -> None:
        self._exposed = exposed or Exposed(clock, Roles.WORKER)
        self._engine = engine
        self._clock = clock
        self._settings = settings
        self._first = first
        self._kept: dict[SupervisedWorker, asyncio.Task[None]] = {}  # and the task that watches each, to its end
        self._known_for_it: dict[Left, Instant] = {}  # users who have worn out workers, and until when we remember them
        self._replace_at = Instant(0)
        self._drain_at: Instant | None = None  # since when our worker is drained on request, and so its replacement
        self._stops, self._by_ctrl_c = 0, False
        self._told = asyncio.Event()  # to stop
        self._changed = asyncio.Event()  # files of the tasks, since the newest worker was started
        self._acts: list[Callable[[], None]] = []
        self.begun = asyncio.Event()  # a worker takes runs, or none can before the next reload
        self.tasks: tuple[str, ...] = ()  # that it has
        self.declared: tuple[DeclaredSet, ...] = ()  # the schedules that its code declares
        self.queues = TakenQueues()
        self.problem: str | None = None  # why no worker can be started with this configuration
        self._exposed.numbers.read(table.WORKER_UP, lambda: {(): self.unready() is None})
        self._exposed.numbers.read(table.BEAT_AGE, self._beat_age)

    @property
    def active(self) -> int:
        """The number of active runs, as of five seconds ago, at most."""
        return sum(kept.active for kept in self._kept)

    def stop(self, *, by_ctrl_c: bool = False) -> None:
        """Let the worker finish within its grace time. Called a second time: at once."""
        self._stops += 1
        self._by_ctrl_c = by_ctrl_c
        self._told.set()
        for kept in self._kept:
            kept.drain(at_once=self._stops > 1, by_ctrl_c=by_ctrl_c)

    def reload(self) -> None:
        """Replace the worker by one that loads the tasks again. Active runs return to the queue, no attempt used."""
        self._changed.set()
        for kept in self._kept:
            kept.why = "reload"
            kept.drain(at_once=True)

    def then(self, act: Callable[[], None]) -> None:
        """Call `act` whenever a worker has registered its tasks: at the start, and after every reload."""
        self._acts.append(act)

    def unready(self) -> str | None:
        """Why no worker takes runs now; None: one does."""
        if self._told.is_set():
            return "The worker is draining."
        if not self._ready:
            return "No worker is registered."
        if self._age() > self._settings.lease:
            return "No heartbeat of the worker has reached the database for longer than its lease."
        return None

    @property
    def _ready(self) -> list[SupervisedWorker]:
        return [kept for kept in self._kept if kept.ready.is_set() and not kept.buried]

    def _age(self) -> int:
        """Time since the last heartbeat of any worker that is registered."""
        return self._clock.monotonic() - max(kept.beaten_at for kept in self._ready)

    def _beat_age(self) -> dict[Labels, float]:
        return {(): self._age() / SECOND} if self._ready else {}

    async def run(self) -> None:
        """Run until told to stop and the worker has ended, or until no worker can start: then `problem` says why."""
        pause = Duration(0)
        try:
            while (kept := await self._start()) is not None:
                kept = await self._last_of(kept)
                if kept.problem is not None and not await self._mended(kept.problem):
                    break
                if not self._told.is_set() and kept.problem is None:
                    self._tell_of_restart(kept)
                short = self._clock.monotonic() - kept.started_at < SOON_DEAD and not self._changed.is_set()
                pause = _longer(pause) if short else Duration(0)
                await happens_within(self._clock, self._told, pause)
            if not self._told.is_set():
                self.stop()
            await asyncio.gather(*self._kept.values())
        finally:
            watching = list(self._kept.values())
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)

    def _tell_of_restart(self, kept: SupervisedWorker) -> None:
        self._exposed.numbers.add(table.RESTARTS, kept.why)
        if kept.why != "reload":
            log.warning(
                "A worker process ended; another one starts",
                kind="worker_restarted",
                worker_id=str(kept.worker_id),
                exit_code=kept.process.returncode,
            )

    async def _mended(self, problem: str) -> bool:
        """Wait until files have changed. False: told to stop, or no files are watched, and `problem` is final."""
        if not self._settings.reload:
            self.problem = problem
            return False
        why = "; ".join(problem.splitlines())
        log.error("No worker can start; saving a file starts it again", kind="worker_unusable", why=why)
        self.begun.set()
        stopped = asyncio.create_task(self._told.wait())
        await _first_of(stopped, self._changed)
        stopped.cancel()
        return not self._told.is_set()

    async def _start(self) -> SupervisedWorker | None:
        """Start another worker process and watch it. None: told to stop before one started."""
        pause = Duration(0)
        while not self._told.is_set():
            if self._first is None:
                self._changed.clear()
            try:
                kept = self._first or await SupervisedWorker.start(
                    self._clock, self._settings, self._remembered(), self._drain_at
                )
            except Exception as error:  # no files, memory or processes left: there may be some in a moment
                if not pause:
                    log.error("No worker process can start; retrying", kind="worker_not_started", why=str(error))
                pause = _longer(pause)
                await happens_within(self._clock, self._told, pause)
                continue
            self._first = None
            self._kept[kept] = asyncio.create_task(self._keep(kept))
            if self._told.is_set():
                kept.drain(at_once=self._stops > 1, by_ctrl_c=self._by_ctrl_c)
            elif self._changed.is_set():
                self.reload()
            return kept
        return None

    async def _last_of(self, kept: SupervisedWorker) -> SupervisedWorker:
        """Wait until it has ended; or, if another has replaced it, until that one has, and so on."""
        while (watching := self._kept.get(kept)) is not None:
            await _first_of(watching, kept.worn)
            if kept.worn.is_set():
                kept = await self._replaced(kept)
        return kept

    async def _replaced(self, worn: SupervisedWorker) -> SupervisedWorker:
        """Return its replacement; itself, if none can start now. A worn worker repeats its message until replaced."""
        worn.worn.clear()
        now = self._clock.monotonic()
        if now < self._replace_at or len(self._kept) > MOST_WORN:
            return worn
        self._replace_at = Instant(now + REPLACE_AGAIN)
        self._known_for_it |= dict.fromkeys(worn.worn_by, Instant(now + KNOWN_FOR))
        new = await self._start()
        if new is None:
            return worn
        await _first_of(self._kept[new], new.ready)
        if not new.ready.is_set():
            log.warning(
                "A worker process should be replaced, but no other one can start; it continues",
                kind="worker_not_replaced",
                why=new.problem,
            )
            return worn
        worn.replaced = True
        self._exposed.numbers.add(table.RESTARTS, "asked")
        worn.channel.send(Drain(replaced=True))
        users = sorted({uid for _, uid in worn.worn_by})
        log.info(
            "A worker process was replaced: too many attempts in it do not stop", kind="worker_replaced", users=users
        )
        return new

    def _remembered(self) -> tuple[Known, ...]:
        now = self._clock.monotonic()
        self._known_for_it = {who: until for who, until in self._known_for_it.items() if until > now}
        return tuple(self._known_for_it.items())

    # -------------------------------------------------------------------------------------------------------- watching

    async def _keep(self, kept: SupervisedWorker) -> None:
        try:
            await self._watch(kept)
        finally:
            try:
                await self._after_end(kept)
            finally:
                del self._kept[kept]
                self._exposed.workers.ended(kept)

    async def _watch(self, kept: SupervisedWorker) -> None:
        """Watch the process until it has ended, by itself or by us."""
        watches = (self._listen(kept), self._beat_on(kept), self._give_up(kept))
        tasks = [asyncio.create_task(self._or_end(kept, watch)) for watch in watches]
        try:
            await kept.process.wait()
            kept.sweep()
            await asyncio.wait(tasks[:1], timeout=1)  # its last message, over a pipe, so by real time
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _or_end(self, kept: SupervisedWorker, watch: Coroutine[Any, Any, None]) -> None:
        try:
            await watch
        except Exception:
            log.exception("A worker process cannot be supervised; another one replaces it", kind="worker_unwatched")
            kept.kill()

    async def _listen(self, kept: SupervisedWorker) -> None:
        while (said := await kept.channel.receive()) is not None:
            kept.alive_at = self._clock.monotonic()
            match said:
                case Ready(classes, asked_at=asked_at):
                    kept.classes = classes
                    if not kept.ready.is_set():
                        kept.beaten_at = min(kept.alive_at, asked_at)
                        self._registered(kept, said)
                case Worn(worn_by):
                    kept.worn_by = worn_by
                    kept.worn.set()
                case Counted(series):
                    self._exposed.workers.heard(kept, series)
                case Unstopped():
                    kept.unstopped = said
                case Unusable(problem):
                    kept.problem = problem
                case Alive(active, load):
                    kept.active, kept.load = active, load or kept.load
                case _:
                    pass

    def _registered(self, kept: SupervisedWorker, said: Ready) -> None:
        self.tasks, self.declared, self.queues = said.tasks, said.declared, said.queues
        self._exposed.know(self.queues.taken)
        kept.ready.set()
        self.begun.set()
        for act in self._acts:
            act()

    async def _beat_on(self, kept: SupervisedWorker) -> None:
        """Send heartbeats, and kill a worker that is blocked, expired or without heartbeats.

        A pending heartbeat delays no other: it may hang on a dead connection while the database is available again. The
        newest that has arrived counts.
        """
        every = Duration(self._settings.lease // BEATS)
        async with asyncio.TaskGroup() as under_way:
            while not self._ends(kept):
                asked_at = self._clock.monotonic()
                if kept.ready.is_set():
                    beat = under_way.create_task(self._beat(kept, asked_at, every))
                    await self._done_within(beat, Duration(every // HASTE))
                    if kept.beaten_at < asked_at:  # lost, and the database may be available again; or still pending
                        await self._clock.sleep(Duration(every // HASTE**2 if beat.done() and not kept.buried else 0))
                        continue
                await self._clock.sleep(Duration(max(0, asked_at + every - self._clock.monotonic())))
            kept.kill()

    def _ends(self, kept: SupervisedWorker) -> bool:
        now, lease, worker_id = self._clock.monotonic(), self._settings.lease, str(kept.worker_id)
        if kept.buried:
            kept.why = "buried"
            log.warning("This worker counts as dead; another one starts", kind="worker_lost", worker_id=worker_id)
        elif kept.ready.is_set() and now - kept.beaten_at > SAFE * lease:
            kept.why = "silent"
            log.error(
                "No heartbeat reaches the database; the worker stops before its lease ends",
                kind="heartbeat_lost",
                worker_id=worker_id,
            )
        elif kept.ready.is_set() and now - kept.alive_at > lease:
            kept.why = "stuck"
            log.warning(
                "The event loop of a worker process is blocked for longer than its lease; another process replaces it",
                kind="worker_stuck",
                worker_id=worker_id,
            )
        else:
            return False
        return True

    async def _done_within(self, beat: asyncio.Task[None], length: Duration) -> None:
        waiting = asyncio.ensure_future(self._clock.sleep(length))
        try:
            await asyncio.wait({beat, waiting}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()

    async def _beat(self, kept: SupervisedWorker, asked_at: Instant, patience: Duration) -> None:
        """Send one heartbeat. An unavailable database is no answer."""
        classes = kept.classes
        news = None if classes == kept.stored_classes else classes
        load = None if kept.load is None else show_load(kept.load)
        try:
            async with self._clock.timeout(patience):
                draining = kept.replaced or self._told.is_set()
                beat_at = self._clock.now()
                beat = await self._engine.fleet.beat(
                    kept.worker_id, beat_at, draining=draining, classes=news, load=load
                )
        except (StoreUnavailable, TimeoutError):
            return
        except Exception:
            log.exception("A heartbeat failed; the next one follows", kind="heartbeat_failed")
            return
        if beat is None:
            kept.buried = True
        elif asked_at >= kept.beaten_at:
            kept.beaten_at, kept.stored_classes = asked_at, classes
            drained = beat.drain_at is not None
            kept.channel.send(Beaten(asked_at, beat.place, beat.peers, drained, beat.alike_before, beat.alike, beat_at))
            if not kept.replaced:
                self._drain_at = beat.drain_at

    async def _give_up(self, kept: SupervisedWorker) -> None:
        await kept.told.wait()
        grace = 0 if kept.why == "reload" else self._settings.shutdown_grace
        working = grace + self._settings.kill_grace + LAST_WORDS
        await self._clock.sleep(Duration(working if kept.ready.is_set() else NOT_YET))
        log.error("A worker process did not end within its grace time; it is killed", kind="worker_killed")
        kept.kill()

    async def _after_end(self, kept: SupervisedWorker) -> None:
        """Handle its end. Runs it could not stop return to the queue, no attempt used; its other runs were lost."""
        await kept.end()
        try:
            await self._write_unstopped(kept.worker_id, kept.unstopped)
            left = await self._engine.fleet.leave(kept.worker_id)
            if left is not None and not kept.replaced:
                self._drain_at = left.drain_at
        except StoreUnavailable:
            pass  # its missing heartbeats say the same, a little later
        except Exception:
            log.exception("A worker that ended could not be unregistered; its lease ends soon", kind="worker_not_left")

    async def _write_unstopped(self, worker_id: WorkerId, left: Unstopped) -> None:
        now = self._clock.now()
        if left.runs:
            await self._engine.running.hand_back(worker_id, left.runs, now)
        if left.ended:
            defaults = KnownDefaults(self._engine.notices, self._clock, self._settings.notify_rate)
            await defaults.refresh()
            await self._engine.running.settle(worker_id, defaults.told(left.ended), now)


def _longer(pause: Duration) -> Duration:
    return min(max(Duration(2 * pause), FIRST_PAUSE), LONGEST_PAUSE)


async def _first_of(task: asyncio.Task[Any], event: asyncio.Event) -> None:
    waiting = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
