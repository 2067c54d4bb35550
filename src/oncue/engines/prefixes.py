"""Texts that begin alike are next to each other in the order of code points: a prefix is a range of them."""

from __future__ import annotations

LAST = 0x10FFFF
SURROGATES = range(0xD800, 0xE000)  # no text has one of them


def range_of(prefix: str) -> tuple[str, str]:
    """Return the first text that begins with this one, and the first that comes after all of them."""
    for place in range(len(prefix), 0, -1):
        following = ord(prefix[place - 1]) + 1
        if following in SURROGATES:
            following = SURROGATES.stop
        if following <= LAST:
            return prefix, prefix[: place - 1] + chr(following)
    return prefix, chr(LAST) * (len(prefix) + 1)
