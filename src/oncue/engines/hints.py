"""Coalescing hints: many about the same thing travel as one."""

from __future__ import annotations

from oncue.engines.port import Hint


def sooner(one: Hint | None, other: Hint) -> Hint:
    """Two hints about the same thing as one. Without a due it means: look now, at everything."""
    if one is None or other.due is None:
        return other
    return one if one.due is None or one.due <= other.due else other
