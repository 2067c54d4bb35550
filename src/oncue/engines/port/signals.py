"""Wake-ups between processes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from typing import Protocol

from oncue.domain.ids import WorkerId
from oncue.engines.values import Hint, Topic

EVERY_TOPIC = frozenset(Topic)


class Signals(Protocol):
    """Wake-ups between processes. A lost hint costs the delay of one poll, nothing else."""

    async def send(self, hints: Sequence[Hint]) -> None:
        """Send hints, combined with those of other callers. Never raises, and never waits long for the database.

        An engine may send a hint that says of which classes runs are due to a few workers that had room for them
        lately, and to everybody only if there are none.
        """
        ...

    async def pass_on(self, hint: Hint, by: WorkerId) -> None:
        """Send a hint of a worker that has no room for these runs to others that may have; to nobody if there are
        none, or if all have heard it anyway.
        """
        ...

    def listen(self, topics: Collection[Topic] = EVERY_TOPIC, worker: WorkerId | None = None) -> AsyncIterator[Hint]:
        """Yield hints of these topics as they arrive, also our own, and none that is for another worker than this one.

        After a broken connection: one hint per topic, without due.
        """
        ...
