"""The contract between oncue and the object storage that keeps large values."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from oncue.domain.reference import Reference


class Storage(Protocol):
    """Objects, by key. The database knows every key but those in the archive, which are listed to forget a user.

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

    def keys(self, prefix: str) -> AsyncIterator[str]:
        """Yield the keys in a folder of objects, such as `a/b` for `a/b/c` and `a/b/d/e`."""
        ...

    async def delete(self, keys: Sequence[str]) -> None:
        """Delete objects. Missing ones are deleted already."""
        ...
