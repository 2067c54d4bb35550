"""Whether writes come back while reads are answered."""

from __future__ import annotations

from typing import Protocol

from oncue.domain.instants import Duration


class Standstill(Protocol):
    """What holds up all writes of this process. Meanwhile each write waits, up to its time limit."""

    @property
    def why(self) -> str | None:
        """What writes wait for, in words for an operator, as far as this process knows. None: nothing."""
        ...

    async def check(self, within: Duration) -> str | None:
        """Write something small that queues behind no call of ours, and return what it waits for.

        None: it came back, or is only slow so far. StoreUnavailable: it failed.
        """
        ...


class NoStandstill:
    """Of an engine with which a ping already says whether writes come back."""

    why = None

    async def check(self, within: Duration) -> None:
        return None
