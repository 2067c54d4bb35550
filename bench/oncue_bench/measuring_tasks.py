"""The task that measures: it records itself when it was due and when it starts, independent of our tables."""

from __future__ import annotations

import os
from mmap import mmap
from pathlib import Path

from oncue.clock import SystemClock
from oncue.context import Context
from oncue.domain.instants import Instant, instant
from oncue.tasks import Tasks
from oncue_bench.notes import ENVIRONMENT, RECORD, WINDOW

TASK = "note"


class Notebook:
    """A file of this process that is written through a memory map, one window at a time: it stays out of our memory."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w+b")
        self._start = -WINDOW
        self._turn()

    def write(self, due: Instant, start: Instant) -> None:
        RECORD.pack_into(self._window, self._at, due, start)
        self._at += RECORD.size
        if self._at == WINDOW:
            self._turn()

    def close(self) -> None:
        self._window.close()
        self._file.close()

    def _turn(self) -> None:
        self._start += WINDOW
        self._file.truncate(self._start + WINDOW)
        self._window = mmap(self._file.fileno(), WINDOW, offset=self._start)
        self._at = 0


def measuring(folder: Path) -> Tasks:
    made = Tasks()
    notebook, now = Notebook(folder / f"{os.getpid()}.notes"), _punctual_clock().now

    @made.task(TASK)
    async def note(ctx: Context) -> None:
        """Write a note, and nothing else."""
        start = now()
        notebook.write(instant(ctx.scheduled_for), start)

    return made


def _punctual_clock() -> SystemClock:
    """Return the best of five clocks: a clock sets itself when it is created, and is behind by any delay then.

    A clock that is behind would report runs as early that are not.
    """
    return max((SystemClock() for _ in range(5)), key=lambda clock: clock.now() - clock.monotonic())


_folder = os.environ.get(ENVIRONMENT)
tasks = measuring(Path(_folder)) if _folder else Tasks()
