"""What the database knows of objects in storage: every key, so that no bucket is ever listed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from oncue.domain.ids import RunId
from oncue.domain.instants import DAY, Duration, Instant
from oncue.engines.values import KnownObject, Looked, StoredObject

UNUSED_FOR = DAY  # then an object that nothing refers to goes
SELDOM = Duration(7 * DAY)  # the longest time between two looks at an object that something refers to
LOOKED_AT_ONCE = 1_000


class Objects(Protocol):
    """The life of an object: it is added here, then put, then a row of its owner refers to it. It goes when a look
    finds that nothing refers to it (any more). So nothing is lost and nothing stays, wherever a process is killed: what
    counts is the reference itself, which every verb moves and deletes with its row.
    """

    async def add(self, objects: Sequence[StoredObject], now: Instant) -> None:
        """Add objects before their first byte is put. They are looked at first when they are `UNUSED_FOR` old.

        A repeat changes nothing.
        """
        ...

    async def look(self, now: Instant, limit: int = LOOKED_AT_ONCE) -> Looked:
        """Look at up to `limit` objects whose time has come, and return those that nothing refers to, to be deleted.

        A payload is referred to by its job: by the definition, an older one, a run in any state or a dead letter. A
        result is, by the history of its run; a part of a log, by another part. Either may still get its reference as
        long as its run has not ended. Objects that are referred to are looked at again later: after as long as they
        have existed, but at least `UNUSED_FOR` and at most `SELDOM`. After a purge their time comes at once.
        """
        ...

    async def forget(self, keys: Sequence[str]) -> None:
        """Remove objects that were deleted from storage. A repeat changes nothing."""
        ...

    async def known(self, keys: Sequence[str]) -> frozenset[str]:
        """Return those of these keys that the database knows."""
        ...

    async def walk(self, after: str, limit: int) -> Sequence[KnownObject]:
        """Return up to `limit` objects whose keys follow `after`, by key in the engine's own order. "": from the first.

        Fewer than `limit`: these are the last ones.
        """
        ...

    async def attach(self, run_id: RunId, token: int, lost: bytes, result: bytes) -> bool:
        """Give a run that has ended its result, where it has `lost` as such, written by the attempt with this token.

        False: it has not (any more), or the run is gone.
        """
        ...
