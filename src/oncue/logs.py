"""What our processes say of themselves, on standard error: for people on a terminal, as lines of JSON elsewhere."""

from __future__ import annotations

import logging
import sys

import structlog


def configure(role: str) -> None:
    """`role` is named in every line. Tasks' own output is not ours: it goes to their runs."""
    terminal = sys.stderr.isatty()
    # Not the renderer's own tracebacks: they show local variables, and with them keys and payloads.
    people = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    shown = people if terminal else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *([] if terminal else [structlog.processors.format_exc_info]),
            shown,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.__stderr__),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(role=role)
