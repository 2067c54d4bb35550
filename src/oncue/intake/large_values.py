"""Payloads and results that are too large for the database: put into object storage, and read from it."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any, TypeAlias
from uuid import UUID

import msgspec

from oncue.clock import Clock
from oncue.domain.errors import Conflict, NotKept
from oncue.domain.ids import UserNumber
from oncue.domain.instants import MINUTE, Duration, Instant, rfc3339
from oncue.domain.reference import RANDOM_BYTES, Kind, Reference, object_key, read_reference
from oncue.engines.port import Engine, StoredObject
from oncue.storage.port import Storage

PUT_TOGETHER = 8  # objects of one request
LINK_LIFETIME = Duration(5 * MINUTE)

Owned: TypeAlias = tuple[UUID, UserNumber, bytes | None]  # a job, its owner, and its payload as it will be stored


class Unsaved(bytes):
    """A reference to an object that is not in storage yet, with what is to be put there."""

    content: bytes


class LargeValues:
    def __init__(self, engine: Engine, storage: Storage, clock: Clock, inline_cap: int) -> None:
        self._engine = engine
        self._storage = storage
        self._clock = clock
        self._inline_cap = inline_cap

    def is_inline(self, payload: bytes) -> bool:
        """Whether a payload is small enough for the database."""
        return len(payload) <= self._inline_cap

    async def referred(self, payload: bytes | None, uid: UserNumber) -> bytes | None:
        """Return the payload as it will be stored: a large one as a reference, which `save` must come before."""
        if payload is None or self.is_inline(payload):
            return payload
        key = object_key(Kind.PAYLOAD, uid, self._clock.now(), secrets.token_bytes(RANDOM_BYTES))
        return await asyncio.to_thread(_unsaved, payload, key)

    async def save(self, *owned: Owned) -> None:
        """Put the large ones of these payloads. StorageUnavailable: their jobs must not be stored.

        Objects whose jobs are not stored in the end are deleted later: see `engines.port.objects`.
        """
        new = [(owner, uid, payload) for owner, uid, payload in owned if isinstance(payload, Unsaved)]
        if not new:
            return
        references = [(_read(payload), payload.content) for _, _, payload in new]
        rows = [
            StoredObject(reference.key, uid, owner, Kind.PAYLOAD, reference.size)
            for (owner, uid, _), (reference, _) in zip(new, references, strict=True)
        ]
        await self._engine.objects.add(rows, self._clock.now())
        for start in range(0, len(references), PUT_TOGETHER):
            together = references[start : start + PUT_TOGETHER]
            await asyncio.gather(*(self._storage.put(reference.key, content) for reference, content in together))

    async def read(self, stored: bytes | None) -> bytes | None:
        """Return a value, wherever it is. ObjectLost: it could not be kept, or is damaged."""
        reference = _kept(stored)
        return stored if reference is None else await self._storage.get(reference)

    async def read_range(self, stored: bytes, start: int, end: int) -> bytes:
        """Return the bytes [start, end) of a value, without checking them."""
        reference = _kept(stored)
        return stored[start:end] if reference is None else await self._storage.get_range(reference, start, end)

    async def link(self, stored: bytes) -> dict[str, Any]:
        """Return a link by which anyone can read a value from object storage. Conflict: there is none for this one."""
        reference = _kept(stored)
        if reference is None:
            raise Conflict("This value is in the database, not in object storage: there is no link to it. Read it.")
        expires_at = Instant(self._clock.now() + LINK_LIFETIME)
        url = await self._storage.link(reference, LINK_LIFETIME)
        if url is None:
            raise Conflict("This object storage cannot sign links, a folder for instance. Read the value.")
        return {
            "url": url,
            "expires_at": rfc3339(expires_at),
            "size": reference.size,
            "sha256": reference.sha256,
        }

    async def has(self, stored: bytes | None) -> bool:
        """Whether a value is where it was stored."""
        reference = read_reference(stored)
        return reference is None or await self._storage.size(reference.key) == reference.size


def _kept(stored: bytes | None) -> Reference | None:
    """Return the reference that this is, if it is one."""
    reference = read_reference(stored)
    if reference is not None and not reference.key:
        raise NotKept("object storage was unavailable for too long when the run ended")
    return reference


def _unsaved(payload: bytes, key: str) -> Unsaved:
    """Equal payloads become equal bytes, so that their references show that they are."""
    content = msgspec.json.encode(msgspec.json.decode(payload), order="sorted")
    stored = Unsaved(Reference.to(key, content).encoded())
    stored.content = content
    return stored


def _read(payload: Unsaved) -> Reference:
    found = read_reference(payload)
    assert found is not None
    return found
