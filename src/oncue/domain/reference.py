"""References: what the database keeps of a payload, a result or a part of a log whose bytes are in object storage."""

from __future__ import annotations

import hashlib
from enum import StrEnum

import msgspec

from oncue.domain.ids import UserNumber
from oncue.domain.instants import Instant, rfc3339

MARK = b"\x01"  # the first byte of a stored reference: JSON never begins with it
VERSION = "v1"  # the first part of every key
LONGEST = 1_000  # bytes of a stored reference
RANDOM_BYTES = 16  # of a key: nobody can guess one


class Kind(StrEnum):
    PAYLOAD = "payload"
    RESULT = "result"
    LOG = "log"


class Reference(msgspec.Struct, frozen=True, omit_defaults=True):
    """An object: its key, and the size and SHA-256 of its bytes, which every reader checks."""

    key: str
    size: int
    sha256: str
    length: int = 0
    """Of what was compressed; 0: the bytes are the value itself."""

    @classmethod
    def to(cls, key: str, content: bytes, length: int = 0) -> Reference:
        return cls(key, len(content), hashlib.sha256(content).hexdigest(), length)

    def encoded(self) -> bytes:
        return MARK + _encode(self)


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Reference).decode


def object_key(kind: Kind, uid: UserNumber, now: Instant, random: bytes) -> str:
    """Return a key for a new object. The objects of a user have a prefix in common."""
    return f"{VERSION}/{kind}/{uid}/{rfc3339(now)[:10]}/{random.hex()}"


def read_reference(stored: bytes | None) -> Reference | None:
    """Return the reference that these stored bytes are. None: they are the value itself."""
    if stored is None or not stored.startswith(MARK) or len(stored) > LONGEST:
        return None
    try:
        return _decode(stored[1:])
    except msgspec.DecodeError:
        return None


def size_of(stored: bytes | None) -> int:
    """Return the size of a value, wherever its bytes are."""
    reference = read_reference(stored)
    return len(stored or b"") if reference is None else reference.length or reference.size
