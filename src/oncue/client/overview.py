"""Calls for an overview: counts and measures over time, problems."""

from __future__ import annotations

from datetime import datetime

from oncue.client.call import Call, field, get, model, path
from oncue.shapes.overview import KnownProblem, SeriesAnswer


def series(
    what: str | None = None,
    *,
    by: str | None = None,
    start_time: datetime | None = None,
    end_time: datetime | None = None,
    step: str | None = None,
) -> Call[SeriesAnswer]:
    """Get counts, or `lag` and `run_time`, over time; `what` may name several, like `succeeded,dead`.

    By default of the last hour. `by` is `task` or `queue`, `step` a duration like `5m`. Users without an admin key get
    counts of their own, by the hour, of the last day by default.
    """
    window = {"from": start_time, "to": end_time}
    return get(path("stats", "series"), model(SeriesAnswer), what=what, by=by, step=step, **window)


def problems() -> Call[tuple[KnownProblem, ...]]:
    """List what needs attention, the most severe first; without an admin key, what concerns your own runs."""
    return get(path("problems"), field("problems", tuple[KnownProblem, ...]))
