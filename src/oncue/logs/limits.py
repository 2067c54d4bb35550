"""Cut bursts of log lines: five per kind and task, then one line every ten seconds that says how many more there were.

A worker may see 20,000 failures a second. Callers on such a path ask `full` before they put a line together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import partial

from oncue.clock import Clock
from oncue.domain.instants import SECOND, Duration, Instant

FIRST = 5  # lines of one kind and task before the others are only counted
EVERY = Duration(10 * SECOND)

Key = tuple[str, str | None]  # kind and task
Tell = Callable[[str, str, str | None, int], None]  # level, kind, task, and how many lines were left out


class _Window:
    __slots__ = ("level", "more", "said", "until")

    def __init__(self, level: str, said: int) -> None:
        self.level = level
        self.until: Instant | None = None  # a timer ends it
        self.said = said
        self.more = 0


class Bursts:
    """Decides which lines are written, and counts all of them. `tell` writes the line about those left out.

    For metrics: `lines` counts the written lines by level, `suppressed` those that were left out.
    """

    def __init__(self, clock: Clock, tell: Tell) -> None:
        self.cut = True  # False: every line is written
        self.lines: dict[str, int] = defaultdict(int)
        self.suppressed = 0
        self._clock = clock
        self._tell = tell
        self._windows: dict[Key, _Window] = {}

    def full(self, kind: str, task: str | None = None) -> bool:
        """Whether a line would be left out now. If so, it counts as left out; if not, the caller writes it."""
        window = self._current((kind, task)) if self.cut else None
        if window is None or window.said < FIRST:
            return False
        window.more += 1
        self.suppressed += 1
        return True

    def admit(self, level: str, kind: str, task: str | None = None) -> bool:
        """Whether to write this line."""
        if self.full(kind, task):
            return False
        window = self._windows.get((kind, task)) or self._open((kind, task), level)
        window.said += 1
        return True

    def flush(self) -> None:
        """Tell what was left out so far: the process ends."""
        for key in list(self._windows):
            self._close(key)

    def _current(self, key: Key) -> _Window | None:
        window = self._windows.get(key)
        if window is None or window.until is None or self._clock.monotonic() < window.until:
            return window
        self._end(key, window)
        return self._windows.get(key)

    def _open(self, key: Key, level: str, said: int = 0) -> _Window:
        window = self._windows[key] = _Window(level, said)
        try:
            self._clock.call_later(EVERY, partial(self._end, key, window))
        except RuntimeError:  # a thread without a loop: the next line of this kind, or the exit, ends the window
            window.until = Instant(self._clock.monotonic() + EVERY)
        return window

    def _end(self, key: Key, window: _Window) -> None:
        """End a window. While the burst lasts, the next one begins without further lines."""
        if self._windows.get(key) is window and self._close(key):
            self._open(key, window.level, said=FIRST)

    def _close(self, key: Key) -> bool:
        """Forget this window; return whether it had left out lines, which are told."""
        window = self._windows.pop(key)
        if window.more:
            self._tell(window.level, *key, window.more)
        return bool(window.more)
