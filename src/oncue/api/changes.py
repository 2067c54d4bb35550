"""What the API's own calls changed, told to the processes that have watchers. How it is put and how it is read."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from oncue.api.reading import as_uuid
from oncue.domain.ids import JobId, UserNumber
from oncue.engines.port import Hint, Topic

PAUSE = 0.1  # seconds between two sendings: what happens meanwhile leaves together
MOST_TOLD = 20  # of one user's jobs; beyond, it is told that there are many


class Changed(msgspec.Struct, frozen=True):
    """What a hint is about: runs of a user's; with `job_id` a job; with `jobs` any number of the user's jobs."""

    uid: UserNumber
    job_id: JobId | None = None
    jobs: bool = False

    def hint(self) -> Hint:
        about = "" if self.job_id is None else f" {self.job_id}"
        return Hint(Topic.CHANGED, target=f"{self.uid}{' jobs' if self.jobs else about}")


def read_changed(target: str) -> Changed | None:
    """None: not from here, or from a newer version."""
    user, _, about = target.partition(" ")
    if not (user.isascii() and user.isdecimal()):
        return None
    if about in ("", "jobs"):
        return Changed(UserNumber(int(user)), jobs=bool(about))
    job_id = as_uuid(about)
    return None if job_id is None else Changed(UserNumber(int(user)), JobId(job_id))


class Changes:
    """At most ten sendings a second, however many calls there are."""

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
            with suppress(TimeoutError):
                async with asyncio.timeout(PAUSE):
                    await asyncio.Event().wait()
            noted, self._noted = self._noted, defaultdict(dict)
            await self._send([changed.hint() for some in noted.values() for changed in some])
