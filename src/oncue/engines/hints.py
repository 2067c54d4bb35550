"""Hints that follow from what was done, and many about the same thing as one."""

from __future__ import annotations

from oncue.engines.port import Cancelled, Hint, Topic


def sooner(one: Hint | None, other: Hint) -> Hint:
    """Two hints about the same thing as one. Without a due it means: look now, at everything."""
    if one is None or other.due is None:
        return other
    return one if one.due is None or one.due <= other.due else other


def after_stopping(answer: Cancelled) -> list[Hint]:
    """Workers that run any of it have mail; whoever waited behind what was stopped may start."""
    hints = [Hint(Topic.MAIL, target=worker) for worker in sorted({str(worker) for _, worker in answer.told})]
    return [*hints, Hint(Topic.RUNS)] if answer.stopped else hints
