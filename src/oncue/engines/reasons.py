"""Why a database is unavailable, in words for operators instead of the driver's names."""

from __future__ import annotations

from collections.abc import Sequence

Kinds = type[BaseException] | tuple[type[BaseException], ...]


def worded(away: BaseException, words: Sequence[tuple[Kinds, str]], otherwise: str, says: str) -> str:
    """Return the words of the first match, with the system's message and the database's, up to one line."""
    for kinds, text in words:
        if isinstance(away, kinds):
            return text
    if isinstance(away, OSError):
        return away.strerror or otherwise
    return f"{says}: {' '.join(str(away).split())[:200]}"
