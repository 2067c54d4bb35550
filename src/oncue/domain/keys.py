"""API keys and sessions as text: create one, recognise a mistyped one, and hash one for storage."""

from __future__ import annotations

import hashlib
import re
from zlib import crc32

from oncue.domain.ids import UserNumber

ENTROPY = 32  # random bytes in a key

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_SECRET, _CHECKSUM = 43, 6  # digits that hold 256 and 32 bits
_KEY = re.compile(rf"([a-z]+)_([0-9A-Za-z]{{{_SECRET}}})([0-9A-Za-z]{{{_CHECKSUM}}})", re.ASCII)

KEY, SESSION = "oc", "ocs"  # what the text of a key begins with, and of a session


def make_key(entropy: bytes, kind: str = KEY) -> str:
    """Build a key from 32 random bytes: `oc_`, the secret, and a checksum."""
    if len(entropy) != ENTROPY:
        raise ValueError(f"a key needs {ENTROPY} random bytes, not {len(entropy)}")
    secret = _base62(int.from_bytes(entropy, "big"), _SECRET)
    return f"{kind}_{secret}{_checksum(secret)}"


def well_formed(text: str, kind: str = KEY) -> bool:
    """Check form and checksum: a mistyped or truncated key is refused without asking the database."""
    found = _KEY.fullmatch(text)
    return found is not None and found[1] == kind and _checksum(found[2]) == found[3]


def key_hash(text: str) -> bytes:
    """Hash a key; only this hash is stored. With 256 random bits in a key, no salt or slow hash is needed."""
    return hashlib.sha256(text.encode()).digest()


def _checksum(secret: str) -> str:
    return _base62(crc32(secret.encode()), _CHECKSUM)


def _base62(number: int, width: int) -> str:
    digits = []
    for _ in range(width):
        number, digit = divmod(number, 62)
        digits.append(_DIGITS[digit])
    return "".join(reversed(digits))


def number_name(uid: UserNumber) -> str:
    """Return what stands in the place of the name of a user who was forgotten."""
    return f"#{uid}"
