"""Invented time-zone rules, for tests of what happens when rules change."""

from __future__ import annotations

import struct

from oncue.domain.instants import SECOND, Duration, Instant
from oncue.domain.zones import Rules

_HEADER = ">4s1s15x6l"


def made_up(version: str, offset: Duration, *changes: tuple[Instant, Duration]) -> Rules:
    """Return rules by which every zone is `offset` ahead of UTC, and by the given offset from each instant on."""
    offsets = [offset, *(after for _, after in changes)]
    times = [at // SECOND for at, _ in changes]
    body = b"".join(
        [
            struct.pack(_HEADER, b"TZif", b"2", 0, 0, 0, len(times), len(offsets), 1),
            struct.pack(f">{len(times)}q", *times),
            bytes(range(1, len(offsets))),
            *(struct.pack(">lbb", length // SECOND, 0, 0) for length in offsets),
            b"\0\n\n",
        ]
    )
    # The part for readers of version 1, which do not exist: a zone without changes.
    file = struct.pack(_HEADER, b"TZif", b"2", 0, 0, 0, 0, 1, 1) + struct.pack(">lbb", 0, 0, 0) + b"\0" + body
    return Rules(version, lambda name: file)
