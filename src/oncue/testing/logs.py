"""Collect log lines instead of writing them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from oncue.log import DEBUG, log


@contextmanager
def capture_logs() -> Iterator[list[dict[str, Any]]]:
    """Yield a list that gets every line: its fields, `event` among them, and its `log_level`."""
    lines: list[dict[str, Any]] = []
    before = log.least, log.write
    log.least, log.write = DEBUG, lambda level, fields: lines.append({**fields, "log_level": level})
    try:
        yield lines
    finally:
        log.least, log.write = before
