"""Configure the logs of our processes on standard error: readable on a terminal, lines of JSON elsewhere.

Logging never blocks or fails its caller: from here on every write to standard output and error goes through an outlet.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import sys
from typing import NoReturn

import structlog

from oncue.outlet import Outlet, text

FLUSH_TIMEOUT = 1.0  # seconds to write pending output before the process ends
STANDARD = (0, 1, 2)

_outlets: list[Outlet] = []


def configure(role: str) -> None:
    """Set up logging; every line names the `role`. Output of tasks goes to the logs of their runs instead."""
    _fill_standard()
    out, err = (Outlet(descriptor, lambda lost: _dropped(role, lost)) for descriptor in (1, 2))
    _outlets[:] = [out, err]
    for name, outlet in (("stdout", out), ("stderr", err)):
        if getattr(sys, name) is getattr(sys, f"__{name}__"):  # else it was replaced, as by a test
            setattr(sys, name, text(outlet))
    atexit.register(settle)
    terminal = err.isatty()
    # The renderer's own tracebacks would show local variables, and with them keys and payloads.
    accounts = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    shown = accounts if terminal else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *([] if terminal else [structlog.processors.format_exc_info]),
            shown,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.WriteLoggerFactory(text(err)),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(role=role)


def settle() -> None:
    """Wait until pending output is written, at most FLUSH_TIMEOUT."""
    for outlet in _outlets:
        outlet.settle(FLUSH_TIMEOUT)


def end(code: int) -> NoReturn:
    """Write pending output and end this process at once: threads and exit handlers cannot delay it."""
    settle()
    os._exit(code)


def _dropped(role: str, lost: int) -> str:
    said = {"event": "some output could not be written and was dropped", "pieces": lost, "level": "warning"}
    return json.dumps({"role": role} | said) + "\n"


def _fill_standard() -> None:
    """Open closed standard descriptors: otherwise the next opened file would take their numbers and receive output."""
    for descriptor in STANDARD:
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # takes the lowest free number: this one
