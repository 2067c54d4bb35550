"""What our processes say of themselves, on standard error: for people on a terminal, as lines of JSON elsewhere.

Nothing that is said can stop who says it: standard output and error are outlets from here on, whoever writes to them.
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

LAST_WORDS = 1.0  # seconds, for what was said to be written before the process ends
STANDARD = (0, 1, 2)

_outlets: list[Outlet] = []


def configure(role: str) -> None:
    """`role` is named in every line. Tasks' own output is not ours: it goes to their runs."""
    _fill_standard()
    out, err = (Outlet(descriptor, lambda lost: _dropped(role, lost)) for descriptor in (1, 2))
    _outlets[:] = [out, err]
    for name, outlet in (("stdout", out), ("stderr", err)):
        if getattr(sys, name) is getattr(sys, f"__{name}__"):  # else somebody has put another one there
            setattr(sys, name, text(outlet))
    atexit.register(settle)
    terminal = err.isatty()
    # Not the renderer's own tracebacks: they show local variables, and with them keys and payloads.
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
    """What was said is written, unless that takes too long."""
    for outlet in _outlets:
        outlet.settle(LAST_WORDS)


def end(code: int) -> NoReturn:
    """End this process at once: no thread, no exit handler can keep it. Its last words are written."""
    settle()
    os._exit(code)


def _dropped(role: str, lost: int) -> str:
    said = {"event": "some of what was said here could not be written", "pieces": lost, "level": "warning"}
    return json.dumps({"role": role} | said) + "\n"


def _fill_standard() -> None:
    """Whoever starts us may have closed these. What is opened next would take their place, and be written into."""
    for descriptor in STANDARD:
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest that is free: this one
