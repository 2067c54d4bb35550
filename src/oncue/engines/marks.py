"""Page tokens: where a list continues. Opaque to callers; any token that we did not issue is refused."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from oncue.domain.errors import Invalid
from oncue.engines.values import Page

Mark = TypeVar("Mark")
Row = TypeVar("Row")
T = TypeVar("T")


def mark(position: object) -> str:
    """Encode a position as text that fits into a URL."""
    return base64.urlsafe_b64encode(msgspec.msgpack.encode(position)).decode().rstrip("=")


def unmark(text: str, shape: type[Mark]) -> Mark:
    """Decode the position, strictly of this shape."""
    try:
        found = msgspec.msgpack.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=shape)
        _storable(found)
        return found
    except (msgspec.MsgspecError, binascii.Error, ValueError):
        raise Invalid.of(
            "page_token", "bad_page_token", "is invalid: list again without it, from the first page"
        ) from None


def page(found: Sequence[Row], limit: int, read: Callable[[Row], T], place: Callable[[Row], object]) -> Page[T]:
    """Return the first `limit` rows; the caller read one more, which tells whether there is another page."""
    more = mark(place(found[limit - 1])) if len(found) > limit else None
    return Page(tuple(read(row) for row in found[:limit]), more)


def _storable(position: object) -> None:
    """Refuse integers that no database can store: a forged token must not become a database error."""
    parts = position if isinstance(position, tuple) else (position,)
    if any(isinstance(part, int) and not -(2**63) <= part < 2**63 for part in parts):
        raise ValueError("more than 64 bits")
