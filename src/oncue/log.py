"""Write log lines: `log.warning("The disk is full", kind="disk_full", path=path)`.

A line has a sentence for people, a `kind` for programs, and further fields. `logs.configure` decides where lines go;
without it they are printed on standard error. Every process imports this first, so it imports next to nothing.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from typing import Any

DEBUG, INFO, WARNING, ERROR, CRITICAL = 10, 20, 30, 40, 50  # as in the standard library
NAMES = {DEBUG: "debug", INFO: "info", WARNING: "warning", ERROR: "error", CRITICAL: "critical"}

Write = Callable[[str, dict[str, Any]], None]
"""Takes a level and the fields, `event` among them; `exc_info` is an exception, or True for the current one."""


def _print(level: str, fields: dict[str, Any]) -> None:
    raised = fields.pop("exc_info", None)
    print(level, fields.pop("event"), *(f"{name}={value!r}" for name, value in fields.items()), file=sys.stderr)
    if raised is not None:
        traceback.print_exception(sys.exception() if raised is True else raised)


class Log:
    """`least`: the lowest level that is written."""

    def __init__(self) -> None:
        self.least = DEBUG
        self.write: Write = _print

    def debug(self, event: str, /, **fields: Any) -> None:
        self.log(DEBUG, event, **fields)

    def info(self, event: str, /, **fields: Any) -> None:
        self.log(INFO, event, **fields)

    def warning(self, event: str, /, **fields: Any) -> None:
        self.log(WARNING, event, **fields)

    def error(self, event: str, /, **fields: Any) -> None:
        self.log(ERROR, event, **fields)

    def critical(self, event: str, /, **fields: Any) -> None:
        self.log(CRITICAL, event, **fields)

    def exception(self, event: str, /, **fields: Any) -> None:
        """Write an error with the exception that is being handled."""
        self.log(ERROR, event, **{"exc_info": True, **fields})

    def log(self, level: int, event: str, /, **fields: Any) -> None:
        if level >= self.least:
            self.write(NAMES[level], {"event": event, **fields})


log = Log()
"""Of this process."""
