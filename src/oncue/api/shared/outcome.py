"""The outcome of a call that may change something: its answer, what it changed, and its line in the audit log.

The guard consumes it. A call that omits one of the three does not type-check.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from enum import Enum, auto
from typing import Any

import msgspec
from starlette.responses import Response

from oncue.api.http.reading import as_uuid
from oncue.domain.errors import OncueError
from oncue.domain.ids import JobId, UserNumber
from oncue.engines.port import Hint, Topic

PAUSE = 0.1  # seconds between two sends: the first goes at once, and changes in between are sent together
MOST_TOLD = 20  # jobs of one user in a hint; beyond, the hint says that there are many


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
    """Build an outcome that is logged without details if anything changed."""
    return Outcome(answer, changed, Line()) if changed else unchanged(answer)


class Interrupted(OncueError):
    """A call failed after it changed something, or may have. `why` is answered; watchers and the log get the rest."""

    def __init__(self, why: Exception, changed: tuple[Changed, ...], audit: Audit) -> None:
        super().__init__(str(why))
        self.why = why
        self.changed = changed
        self.audit = audit


class Changed(msgspec.Struct, frozen=True):
    """What a hint reports: changed runs of a user; with `job_id` a job; with `jobs` any number of the user's jobs."""

    uid: UserNumber
    job_id: JobId | None = None
    jobs: bool = False

    def hint(self) -> Hint:
        about = "" if self.job_id is None else f" {self.job_id}"
        return Hint(Topic.CHANGED, target=f"{self.uid}{' jobs' if self.jobs else about}")


def read_changed(target: str) -> Changed | None:
    """None: the hint is of another kind, or from a newer version."""
    user, _, about = target.partition(" ")
    if not (user.isascii() and user.isdecimal()):
        return None
    if about in ("", "jobs"):
        return Changed(UserNumber(int(user)), jobs=bool(about))
    job_id = as_uuid(about)
    return None if job_id is None else Changed(UserNumber(int(user)), JobId(job_id))


class Changes:
    """Sends hints of changes at most ten times a second, however many calls there are."""

    def __init__(self, send: Callable[[Sequence[Hint]], Coroutine[Any, Any, None]]) -> None:
        self._send = send
        self._noted: dict[UserNumber, dict[Changed, None]] = defaultdict(dict)
        self._sending: asyncio.Task[None] | None = None

    def note(self, changed: Changed) -> None:
        noted = self._noted[changed.uid]
        noted[changed] = None
        if len(noted) > MOST_TOLD:
            self._noted[changed.uid] = {Changed(changed.uid, jobs=True): None}
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send_noted())

    async def _send_noted(self) -> None:
        while self._noted:
            noted, self._noted = self._noted, defaultdict(dict)
            await self._send([changed.hint() for some in noted.values() for changed in some])
            with suppress(TimeoutError):
                async with asyncio.timeout(PAUSE):
                    await asyncio.Event().wait()
