"""The contract between oncue and the object storage that keeps large values."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

import msgspec

from oncue.domain.instants import Duration, Instant
from oncue.domain.reference import Reference


class Listed(msgspec.Struct, frozen=True):
    """An object that is in storage, by the storage's own clock."""

    key: str
    size: int
    changed_at: Instant


class Storage(Protocol):
    """Objects, by key. The database knows every key but those in the archive: objects are listed only to forget a user
    there, and for a check that somebody asks for.

    Every call has a time limit. StorageUnavailable: storage cannot be reached or did not answer in time, and a write
    may or may not have happened; it can be repeated. StorageRefused: it does not let us in or lacks the bucket, and a
    repeat does not help until somebody changes that.
    """

    url: str  # for people: without the keys to it

    async def put(self, key: str, content: bytes) -> None:
        """Store an object durably and whole, or not at all. If there is one with this key, it stays, as a success."""
        ...

    async def get(self, reference: Reference) -> bytes:
        """Return the bytes of an object. ObjectLost: it is missing, or its bytes are not those that were stored."""
        ...

    async def get_range(self, reference: Reference, start: int, end: int) -> bytes:
        """Return the bytes [start, end) of an object, which cannot be checked. ObjectLost: it is missing or shorter."""
        ...

    async def link(self, reference: Reference, lifetime: Duration) -> str | None:
        """Return a link by which anyone can read an object for this long. None: this storage cannot sign any.

        It is not checked whether the object is there.
        """
        ...

    def is_new(self) -> bool:
        """Whether this is a folder in which nothing was ever stored, or an empty one below a missing mount."""
        ...

    async def size(self, key: str) -> int | None:
        """Return how many bytes an object has. None: it is missing."""
        ...

    def listed(self, prefix: str) -> AsyncIterator[Sequence[Listed]]:
        """Yield the objects below a prefix in pages, in any order. Those that come and go meanwhile may be left out.

        In a folder this includes what killed writers have left: `name#1` for the object `name`.
        """
        ...

    async def delete(self, keys: Sequence[str]) -> None:
        """Delete objects. Missing ones are deleted already."""
        ...
