"""Content encodings: which ones a request takes, and gzip for an answer.

What is compressed tells by its size whether two texts in it are alike. Other sites cannot make use of that: a browser
sends them no cookie (SameSite=Strict), and no answer has a key beside what others wrote.
"""

from __future__ import annotations

import asyncio
import zlib

WORTH_IT = 8 * 1024  # bytes: fewer travel as quickly as they are
AT_ONCE = 128 * 1024  # bytes that are compressed in the event loop, within a millisecond; more take a thread
LEVEL = 1  # the fastest: 100 KB take 0.7 ms; level 6 takes twice as long for a seventh less
GZIP = 16 + zlib.MAX_WBITS


def taken(accept_encoding: str) -> frozenset[str]:
    """Return the encodings that an Accept-Encoding header names and does not refuse."""
    offers = (one.partition(";") for one in accept_encoding.lower().replace(" ", "").split(","))
    return frozenset(name for name, _, weight in offers if weight.rstrip("0.") != "q=")


async def gzipped(body: bytes) -> bytes:
    if len(body) <= AT_ONCE:
        return zlib.compress(body, LEVEL, GZIP)
    return await asyncio.to_thread(zlib.compress, body, LEVEL, GZIP)
