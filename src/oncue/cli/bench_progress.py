"""Show the progress of `oncue bench`: bars on a terminal, nothing elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class Shown:
    """One bar for all parts, and one for the current step."""

    def __init__(self, progress: Progress, parts: int) -> None:
        self._progress = progress
        self._all = progress.add_task("starting", total=parts)
        self._now = progress.add_task("", total=None)
        self._begun = -1
        self._what = ""

    def begins(self, part: str) -> None:
        self._begun += 1
        self._progress.update(self._all, description=part, completed=self._begun)

    def step(self, what: str, done: int, total: int | None) -> None:
        """Update the bar of the current step. Text after a colon may change during a step."""
        name = what.partition(":")[0]
        if name != self._what:
            self._what = name
            self._progress.reset(self._now, total=total)
        self._progress.update(self._now, description=f"  {what}", completed=done, total=total)


@contextmanager
def showing(parts: int) -> Iterator[Shown]:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield Shown(progress, parts)
