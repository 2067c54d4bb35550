"""Wake-ups between processes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from oncue.engines.values import (
    Hint,
)


class Signals(Protocol):
    """Wake-ups between processes. A lost hint costs the delay of one poll, nothing else."""

    async def send(self, hints: Sequence[Hint]) -> None:
        """Send hints, combined with those of other callers. Never raises, and never waits long for the database."""
        ...

    def listen(self) -> AsyncIterator[Hint]:
        """Yield hints as they arrive, also our own. After a broken connection: one hint per topic, without due."""
        ...
