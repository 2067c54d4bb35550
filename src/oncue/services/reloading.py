"""Restart the worker when the files of its tasks change, and say so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path

from oncue.clock import Clock
from oncue.domain.instants import MILLISECOND, SECOND, Duration, Instant
from oncue.executors.task_files import TaskFiles
from oncue.log import log
from oncue.services.supervisor import WorkerSupervisor
from oncue.services.taken_queues import TakenQueues, log_not_taken

INTERVAL = Duration(SECOND)  # between two looks at the files
MOMENT = Duration(100 * MILLISECOND)  # without a change, after one: an editor may still be writing

Apply = Callable[[], Awaitable[object]]


class Reloading:
    name = "reloading"

    def __init__(
        self, files: TaskFiles, supervisor: WorkerSupervisor, clock: Clock, apply: Apply | None = None
    ) -> None:
        self._files = files
        self._supervisor = supervisor
        self._clock = clock
        self._changed: set[Path] = set()
        self._began: Instant | None = None  # of the reload that has not ended, monotonic
        self._apply = apply
        self._reloaded = False  # what the new code declares is to be applied
        self._queues = TakenQueues()  # before the reload
        supervisor.then(self._registered)

    async def run_once(self) -> Duration:
        if self._reloaded and self._apply is not None:
            self._reloaded = False
            await self._apply()
        changed = await asyncio.to_thread(self._files.changed)
        self._changed |= changed
        if changed:
            return MOMENT
        if self._changed:
            names = sorted(file.name for file in self._changed)
            log.info("Files changed; the worker restarts", kind="reload", files=names)
            self._changed.clear()
            self._began = self._clock.monotonic()
            self._supervisor.reload()
        return INTERVAL

    def _registered(self) -> None:
        if self._began is not None:
            took = round((self._clock.monotonic() - self._began) / SECOND, 2)
            self._began, self._reloaded = None, True
            queues = self._supervisor.queues
            changed = {"queues": queues.taken} if queues.taken != self._queues.taken else {}
            tasks = len(self._supervisor.tasks)
            log.info("The worker has restarted", kind="reloaded", seconds=took, tasks=tasks, **changed)
            if queues != self._queues:
                log_not_taken(queues.taken, queues.not_taken)
        self._queues = self._supervisor.queues


@asynccontextmanager
async def woken_by_changes(folders: Iterable[Path], wake: Callable[[], None]) -> AsyncIterator[None]:
    """Call `wake` as soon as a file changes, if the package watchfiles is installed."""
    if find_spec("watchfiles") is None or not (watched := [str(folder) for folder in folders if folder.is_dir()]):
        yield
        return
    watching = asyncio.create_task(_watch(watched, wake))
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def _watch(folders: list[str], wake: Callable[[], None]) -> None:
    from watchfiles import awatch

    try:
        async for _ in awatch(*folders, recursive=False, step=20, debounce=200):
            wake()
    except Exception as error:  # as too many watched files: the files are looked at every second anyway
        log.warning("Changes of files are noticed a second later", kind="files_unwatched", why=str(error))
