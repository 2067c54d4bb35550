"""Run functions in processes of their own, which can be killed and cannot harm other runs."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from oncue.executors.limits import Limits, limits_for
from oncue.executors.port import Work, within_cap
from oncue.executors.warm import WarmProcess, start_process
from oncue.log import log
from oncue.settings import Settings


class ProcessExecutor:
    """Up to `size` processes, started when needed and kept for the next run with the same limits.

    They execute no run themselves: each run is a process of its own, and over when nothing is left of it.
    """

    def __init__(self, settings: Settings, size: int) -> None:
        self._settings = settings
        self._folder = str(Path.cwd())  # where every run starts, wherever other tasks of the worker change to
        self._told = False
        self._size = size or os.cpu_count() or 1
        self._places = asyncio.Semaphore(self._size)
        self._idle: list[WarmProcess] = []
        self._busy: set[WarmProcess] = set()
        self._endings: set[asyncio.Task[None]] = set()

    async def run(self, work: Work) -> bytes | None:
        async with self._places:
            limits = limits_for(self._settings, work.resources)
            process = self._warm(limits) or await self._started(limits)
            try:
                return await self._run_in(process, work)
            finally:
                if process.usable:
                    self._idle.append(process)
                else:
                    self._end(process)

    async def run_alone(self, work: Work) -> bytes | None:
        """Run with nothing that other runs have used: for a run that has cost workers before."""
        async with self._places:
            process = await self._started(limits_for(self._settings, work.resources))
            try:
                return await self._run_in(process, work)
            finally:
                self._end(process)

    async def close(self) -> None:
        for process in (*self._idle, *self._busy):
            self._end(process)
        self._idle.clear()
        if self._endings:
            await asyncio.wait(self._endings)

    async def _started(self, limits: Limits) -> WarmProcess:
        process = await start_process(self._settings, limits, self._folder)
        if process.left and not self._told:
            log.info(
                "Each process-isolated run starts a new Python, because importing the tasks leaves something running",
                kind="no_fork",
                left=process.left,
            )
            self._told = True
        return process

    async def _run_in(self, process: WarmProcess, work: Work) -> bytes | None:
        self._busy.add(process)
        try:
            return within_cap(await process.run(work), self._settings.max_result_bytes)
        finally:
            self._busy.discard(process)

    def _warm(self, limits: Limits) -> WarmProcess | None:
        """The process that was used last. If none has these limits, one ends to make room for a new one."""
        for process in [process for process in self._idle if not process.usable]:
            self._idle.remove(process)
            self._end(process)
        fitting = [process for process in self._idle if process.limits == limits]
        if fitting:
            self._idle.remove(fitting[-1])
            return fitting[-1]
        if len(self._idle) + len(self._busy) >= self._size and self._idle:
            self._end(self._idle.pop(0))
        return None

    def _end(self, process: WarmProcess) -> None:
        """End a process without waiting for it: the result of a run need not wait."""
        ending = asyncio.ensure_future(process.stop())
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)
