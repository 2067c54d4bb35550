"""Configure the logs of our processes on standard error: readable on a terminal, lines of JSON elsewhere.

Every line has a `kind`, its stable name for programs, and an `event`, a sentence for people. Logging never blocks or
fails its caller: from here on every write to standard output and error goes through an outlet.

- `lines.py` puts a line together, without secrets, as JSON or as text.
- `terminal.py` shows a line in short, for a person who watches.
- `limits.py` cuts bursts of lines.
- `output.py` writes to standard output and error without raising or blocking.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import sys
import threading
from types import TracebackType
from typing import Any, NoReturn

from oncue.clock import SystemClock
from oncue.context import current
from oncue.domain.instants import Instant, rfc3339
from oncue.log import log
from oncue.logs import lines, terminal
from oncue.logs.limits import Bursts
from oncue.logs.output import Outlet, text
from oncue.settings import Settings

FLUSH_TIMEOUT = 1.0  # seconds to write pending output before the process ends
STANDARD = (0, 1, 2)
LEVELS = {name: getattr(logging, name.upper()) for name in ("debug", "info", "warning", "error")}
UNCUT = {"request", "run_output", "run_output_cut"}  # what is asked for: the access log, and output, which is bounded
LIBRARIES = ("asyncio", "uvicorn.error")  # the loggers whose records are about our own processes

_outlets: list[Outlet] = []


def _tell_more(level: str, kind: str, task: str | None, more: int) -> None:
    about = {} if task is None else {"task": task}
    getattr(log, level)("More lines of this kind were left out", kind=kind, more=more, **about)


bursts = Bursts(SystemClock(), _tell_more)  # of this process


def configure(role: str, settings: Settings | None = None, **about: str) -> None:
    """Set up logging; every line names the `role`. Call it again, before the first line, once the settings are known.

    Output of tasks goes to the logs of their runs instead.
    """
    settings = settings or Settings()
    if not _outlets:
        _replace_streams(role)
    on_terminal = _outlets[1].isatty()
    log.least = LEVELS[settings.log_level]
    bursts.cut = not settings.log_runs
    log.write = _Lines({"role": role, **about}, settings, on_terminal)


def pretty(settings: Settings, *, terminal: bool) -> bool:
    """Whether to write text for people instead of JSON."""
    return settings.log_format in ("pretty", "short") or (settings.log_format == "auto" and terminal)


class _Lines:
    """Writes lines to standard error, as JSON or as text."""

    def __init__(self, about: dict[str, str], settings: Settings, on_terminal: bool) -> None:
        self._about = about
        self._to = _outlets[1]
        self._pretty, self._short = pretty(settings, terminal=on_terminal), settings.log_format == "short"
        self._errors = settings.log_errors or (self._pretty and on_terminal)
        self._colours = on_terminal and "NO_COLOR" not in os.environ

    def __call__(self, level: str, said: dict[str, Any]) -> None:
        if (
            said.get("kind") not in UNCUT
            and "more" not in said
            and not bursts.admit(level, said.get("kind", ""), said.get("task"))
        ):
            return
        bursts.lines[level] += 1
        if said.get("exc_info") is True:
            said["exc_info"] = sys.exc_info()[1]
        output = said.pop("output", None)  # of a task, as in its run's log: masked, and no word of it changed
        now = SystemClock().now()
        head = {"timestamp": rfc3339(now), "level": level, **self._about}
        line = lines.scrubbed(lines.in_order(head | lines.explained(said, errors=self._errors)))
        line |= {} if output is None else {"output": output}
        self._to.write(f"{self._shown(line, now)}\n".encode(errors="backslashreplace"))

    def _shown(self, line: lines.Line, now: Instant) -> str:
        if self._short:
            return terminal.as_short(line, now, colours=self._colours)
        return lines.as_text(line, colours=self._colours) if self._pretty else lines.as_json(line)


def settle() -> None:
    """Wait until pending output is written, at most FLUSH_TIMEOUT."""
    bursts.flush()
    for outlet in _outlets:
        outlet.settle(FLUSH_TIMEOUT)


def end(code: int) -> NoReturn:
    """Write pending output and end this process at once: threads and exit handlers cannot delay it."""
    settle()
    os._exit(code)


def _replace_streams(role: str) -> None:
    _fill_standard()
    out, err = (Outlet(descriptor, lambda lost: _dropped(role, lost)) for descriptor in (1, 2))
    _outlets[:] = [out, err]
    for name, outlet in (("stdout", out), ("stderr", err)):
        if getattr(sys, name) is getattr(sys, f"__{name}__"):  # else it was replaced, as by a test
            setattr(sys, name, text(outlet))
    sys.excepthook = _crashed
    if threading.excepthook is threading.__excepthook__:  # else it was replaced, as by a test
        threading.excepthook = _thread_failed
    if sys.unraisablehook is sys.__unraisablehook__:
        sys.unraisablehook = _ignored
    for library in LIBRARIES:
        logging.getLogger(library).addFilter(_says_it_for)
    logging.lastResort = _LastResort(logging.WARNING)
    atexit.register(settle)


def _crashed(_: type[BaseException], error: BaseException, __: TracebackType | None) -> None:
    log.critical("The process ends because of an unexpected error", kind="crashed", exc_info=error)


def _thread_failed(said: threading.ExceptHookArgs) -> None:
    """Log the error that ended a thread, as of a task's own. Python would print it with its message, unmasked."""
    if not issubclass(said.exc_type, SystemExit):
        log.error("A thread ended because of an error", kind="thread_failed", exc_info=said.exc_value)


def _ignored(said: sys.UnraisableHookArgs) -> None:
    """Log an error that nobody can catch, as in `__del__`, unless it belongs to a run, whose log then has it."""
    if current.get() is not None:
        sys.__unraisablehook__(said)
    else:
        log.error("An error was ignored, because no code could catch it", kind="error_ignored", exc_info=said.exc_value)


def _says_it_for(record: logging.LogRecord) -> bool:
    """Write a library's record as a line of ours, unless it belongs to a run, whose log then has it."""
    if current.get() is not None or record.levelno < logging.WARNING:
        return True
    raised = record.exc_info[1] if record.exc_info else None
    about = {"exc_info": raised} if raised is not None else {"error": record.getMessage()}
    level = logging.ERROR if record.levelno >= logging.ERROR else logging.WARNING
    log.log(level, "A library reported a problem", kind="library", library=record.name, **about)
    return False


class _LastResort(logging.Handler):
    """Gets the records that no handler takes. Those of OpenTelemetry are about our spans, and may hold the key of their
    collector; the others belong to users' modules, and go where they always went.
    """

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self._before = logging.lastResort

    def emit(self, record: logging.LogRecord) -> None:
        if (not record.name.startswith("opentelemetry.") or _says_it_for(record)) and self._before is not None:
            self._before.handle(record)


def _dropped(role: str, lost: int) -> str:
    said = {"event": "Some output could not be written and was dropped", "pieces": lost, "level": "warning"}
    return json.dumps({"role": role, "kind": "output_dropped"} | said) + "\n"


def _fill_standard() -> None:
    """Open closed standard descriptors: otherwise the next opened file would take their numbers and receive output."""
    for descriptor in STANDARD:
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # takes the lowest free number: this one
