"""Calls for an overview: counts and measures over time, problems, what is to come."""

from __future__ import annotations

from oncue.client.call import Call, Id, Page, field, get, model, page_of, path
from oncue.shapes.jobs import Length, When
from oncue.shapes.overview import KnownProblem, SeriesAnswer, UpcomingDensity, UpcomingRun, UpcomingSkip


def series(
    what: str | None = None,
    *,
    by: str | None = None,
    start_time: When | None = None,
    end_time: When | None = None,
    step: Length | None = None,
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


def upcoming_page(
    *,
    start_time: When | None = None,
    end_time: When | None = None,
    task: str | None = None,
    queue: str | None = None,
    job_id: Id | None = None,
    limit: int | None = None,
    page_token: str | None = None,
) -> Call[Page[UpcomingRun]]:
    """List the runs to come, the next first. Without `end_time` and a limit of your own the list may have no end."""
    window = {"from": start_time, "to": end_time, "limit": limit, "page_token": page_token}
    parse = page_of("upcoming", UpcomingRun)
    return get(path("upcoming"), parse, task=task, queue=queue, job_id=job_id, **window)


def upcoming_density(
    *,
    start_time: When | None = None,
    end_time: When | None = None,
    step: Length | None = None,
    by: str | None = None,
    task: str | None = None,
    queue: str | None = None,
    job_id: Id | None = None,
) -> Call[UpcomingDensity]:
    """Get how many runs come when, by default in the next day.

    `by` is `task`, `queue` or `task,queue`, and adds `groups`: the same of each of them.
    """
    window = {"from": start_time, "to": end_time, "step": step, "by": by}
    parse = model(UpcomingDensity)
    return get(path("upcoming", "density"), parse, task=task, queue=queue, job_id=job_id, **window)


def upcoming_skipped(
    *,
    start_time: When | None = None,
    end_time: When | None = None,
    task: str | None = None,
    queue: str | None = None,
    job_id: Id | None = None,
) -> Call[tuple[UpcomingSkip, ...]]:
    """List the occurrences that daylight saving will drop, by default in the next day."""
    window = {"from": start_time, "to": end_time}
    parse = field("skipped", tuple[UpcomingSkip, ...])
    return get(path("upcoming", "skipped"), parse, task=task, queue=queue, job_id=job_id, **window)
