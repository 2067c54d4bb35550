"""The classes that one process knows: it reads new ones, and notices, more slowly, which have gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from oncue.clock import Clock
from oncue.domain.ids import NO_CLASS, ClassId
from oncue.domain.instants import MINUTE, Duration, Instant
from oncue.domain.placement import ClassKey
from oncue.engines.port import Jobs

PAGE: Final = 1_000  # classes read at a time: decoding more would block everything else in the process
CHECK: Final = Duration(10 * MINUTE)  # between two checks of all known classes: they go about as often


class KnownClasses:
    """Those of all classes that `concern` this process, by number."""

    def __init__(self, jobs: Jobs, clock: Clock, concern: Callable[[ClassKey], bool] = lambda _: True) -> None:
        self._jobs = jobs
        self._clock = clock
        self._concern = concern
        self.known: dict[ClassId, ClassKey] = {}
        self._newest = NO_CLASS  # of all that were read, whether or not they concern us
        self._checked = NO_CLASS  # all known classes up to here still exist
        self._check_at = Instant(clock.monotonic() + CHECK)
        self._came: list[ClassId] = []
        self._gone = False

    def is_new(self, class_id: ClassId) -> bool:
        """Whether it was added since the last read."""
        return class_id > self._newest

    def changes(self) -> tuple[list[ClassId], bool]:
        """Return which classes came and whether any went, since the last call. Failures in between lose nothing."""
        found = (self._came, self._gone)
        self._came, self._gone = [], False
        return found

    async def read_new(self) -> None:
        """Read the classes that were added since the last read."""
        while found := await self._jobs.classes(self._newest, PAGE):
            self._add(found)
            self._newest = max(found)
            if len(found) < PAGE:
                break

    async def check(self) -> None:
        """Check now and then, one page per call, that known classes still exist and that none was missed."""
        if self._clock.monotonic() < self._check_at:
            return
        found = await self._jobs.classes(self._checked, PAGE)
        until = max(found) if len(found) == PAGE else self._newest
        gone = [one for one in self.known if self._checked < one <= until and one not in found]
        for class_id in gone:
            del self.known[class_id]
        self._gone |= bool(gone)
        self._add({one: key for one, key in found.items() if one <= self._newest and one not in self.known})
        self._checked = until
        if len(found) < PAGE:
            self._checked, self._check_at = NO_CLASS, Instant(self._clock.monotonic() + CHECK)

    def _add(self, found: dict[ClassId, ClassKey]) -> None:
        new = {class_id: key for class_id, key in found.items() if self._concern(key)}
        self.known |= new
        self._came += new
