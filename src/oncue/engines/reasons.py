"""Why a store is away, in words for whoever runs oncue: not the driver's names for it."""

from __future__ import annotations

from collections.abc import Sequence

Kinds = type[BaseException] | tuple[type[BaseException], ...]


def worded(away: BaseException, words: Sequence[tuple[Kinds, str]], otherwise: str, says: str) -> str:
    """The words of the first that fits. What the system said is repeated, and what the store said, up to a line."""
    for kinds, text in words:
        if isinstance(away, kinds):
            return text
    if isinstance(away, OSError):
        return away.strerror or otherwise
    return f"{says}: {' '.join(str(away).split())[:200]}"
