"""Wake-ups between processes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from oncue.engines.values import (
    Hint,
)


class Signals(Protocol):
    """Wake-ups between processes. A lost hint costs a poll's delay, nothing else."""

    async def send(self, hints: Sequence[Hint]) -> None:
        """Never raises and never waits for the store for long; coalesced with what others send."""
        ...

    def listen(self) -> AsyncIterator[Hint]:
        """Hints as they come, one's own too. After a gap in the connection every topic is hinted once, without due."""
        ...
