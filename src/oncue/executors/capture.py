"""Send prints and log lines of user code to the log of their run.

`print`, `sys.stderr.write` and standard logging find the run in `oncue.context.current`; `ctx.log` names it itself.
Output that belongs to no run goes where it always went. Nothing here raises into user code.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TextIO, cast

from oncue.context import Reports, current
from oncue.domain.instants import Instant, rfc3339

# True while a run's log is being written: what the log itself prints or logs must not come back to it.
_delivering: ContextVar[bool] = ContextVar("oncue_delivering", default=False)


def install() -> Callable[[], None]:
    """Capture from now on, for the whole process. The returned function undoes it."""
    real = sys.stdout, sys.stderr
    if isinstance(real[0], _Stream):
        return lambda: None
    sys.stdout, sys.stderr = (cast(TextIO, _Stream(stream)) for stream in real)
    stop_logging = capture_logging()

    def undo() -> None:
        sys.stdout, sys.stderr = real
        stop_logging()

    return undo


def capture_logging() -> Callable[[], None]:
    """Capture only standard logging; for a process whose standard streams already are the run's log."""
    root, task = logging.getLogger(), logging.getLogger("oncue.task")
    handler = _Handler()
    handler.setFormatter(_Formatter())
    before = task.level, task.propagate
    root.addHandler(handler)
    task.addHandler(handler)
    task.setLevel(logging.DEBUG)
    task.propagate = False

    def undo() -> None:
        root.removeHandler(handler)
        task.removeHandler(handler)
        task.level, task.propagate = before

    return undo


@contextmanager
def capturing(reports: Reports) -> Iterator[None]:
    """Send what this block prints and logs to this run."""
    token = current.set(reports)
    try:
        yield
    finally:
        current.reset(token)


def _deliver(reports: Reports | None, text: str) -> bool:
    """Write to the run's log. False: the text belongs to no run, or comes from the run's log itself."""
    if reports is None or _delivering.get():
        return False
    token = _delivering.set(True)
    try:
        reports.write(text)
    except Exception:  # a failing log must not fail the task
        return False
    finally:
        _delivering.reset(token)
    return True


class _Stream:
    """Replaces a standard stream, and behaves like it in everything but writing."""

    def __init__(self, real: TextIO) -> None:
        self._real = real

    def write(self, text: str) -> int:
        if isinstance(text, str) and _deliver(current.get(), text):
            return len(text)
        return self._real.write(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class _Handler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        reports = getattr(record, "oncue_run", None) or current.get()
        try:
            if reports is not None and (self._said_elsewhere(record) or _deliver(reports, self.format(record) + "\n")):
                return
        except Exception:
            self.handleError(record)  # like every handler of standard logging: printed to stderr, not raised
        self._otherwise(record)

    def _said_elsewhere(self, record: logging.LogRecord) -> bool:
        """Whether the user's own handler writes to a stream that we capture: once is enough."""
        others = logging.getLogger().handlers
        return record.name != "oncue.task" and any(isinstance(getattr(h, "stream", None), _Stream) for h in others)

    def _otherwise(self, record: logging.LogRecord) -> None:
        """Keep what the root logger does without handlers: warnings go to stderr."""
        last = logging.lastResort
        if logging.getLogger().handlers == [self] and last and record.levelno >= last.level:
            last.handle(record)


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        said = super().format(record)  # the message, and the traceback if there is one
        return f"{rfc3339(Instant(int(record.created * 1_000_000)))} {record.levelname} {said}"
