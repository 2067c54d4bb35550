"""What a call that may change something comes to: its answer, what it changed, and its line in the audit log.

The guard consumes it. A call that forgets one of the three does not type-check.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Any

import msgspec
from starlette.responses import Response

from oncue.api.changes import Changed
from oncue.domain.errors import OncueError


class Line(msgspec.Struct, frozen=True):
    """The guard writes a line with the names in the path and these details."""

    detail: dict[str, Any] = {}


class Unlogged(Enum):
    """Why the guard writes no line."""

    UNCHANGED = auto()
    STORED = auto()  # the call stored its line in the transaction of its change, or before it


Audit = Line | Unlogged


class Outcome(msgspec.Struct, frozen=True):
    answer: Response
    changed: tuple[Changed, ...]
    audit: Audit


def unchanged(answer: Response) -> Outcome:
    return Outcome(answer, (), Unlogged.UNCHANGED)


def outcome(answer: Response, changed: tuple[Changed, ...]) -> Outcome:
    """Logged without details if anything changed."""
    return Outcome(answer, changed, Line()) if changed else unchanged(answer)


class Interrupted(OncueError):
    """A call failed after it changed something, or may have. `why` is answered, the rest is told and logged."""

    def __init__(self, why: Exception, changed: tuple[Changed, ...], audit: Audit) -> None:
        super().__init__(str(why))
        self.why = why
        self.changed = changed
        self.audit = audit
