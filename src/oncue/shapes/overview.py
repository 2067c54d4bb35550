"""Counts and measures over time, problems, and what is to come."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import msgspec


class SeriesPoint(msgspec.Struct, frozen=True, kw_only=True):
    """What was counted or measured from `at` on, for one step."""

    at: datetime
    n: int = 0
    """how many"""
    buckets: tuple[int, ...] | None = None
    """of `lag` and `run_time`: how many of these are in each bucket; one more than there are `edges`"""
    p50_ms: float | None = None
    """estimated from the buckets, as are the next two"""
    p95_ms: float | None = None
    p99_ms: float | None = None


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a chart."""

    what: str
    name: str | None = None
    """the task or queue; `other`: all that have no line of their own; null: everything"""
    total: int = 0
    """the sum of its points"""
    points: tuple[SeriesPoint, ...] = ()
    """without those at which nothing happened"""


class SeriesAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Counts or measures over time."""

    start_time: datetime
    """of the first step"""
    end_time: datetime
    step: str
    by: str | None = None
    edges: dict[str, tuple[float, ...]] = {}
    """for `lag` and `run_time`: the upper edge of each bucket in seconds; what is beyond the last is in one more"""
    minutes_from: datetime | None = None
    """before this only hours are kept, and smaller steps have everything at the beginning of the hour"""
    series: tuple[Series, ...] = ()


class KnownProblem(msgspec.Struct, frozen=True, kw_only=True):
    """Something that needs attention, in words."""

    kind: str
    """`no_scheduler`, `planning_late`, `no_workers`, `all_draining`, `no_worker`, `late_runs`, \
`worker_without_heartbeat`, `process_without_heartbeat`, `workers_full`, `mixed_versions`, `paused_queue`, \
`failing_job`, `dead_letters`, `missed`, `findings` or `audit_stopped`"""
    severity: str
    """`problem`: something does not work; `warning`: it works, but needs attention"""
    title: str
    """a few words"""
    detail: str = ""
    """what is known, in a sentence or two"""
    count: int = 0
    """of runs, dead letters, occurrences, workers or processes; what it counts follows from the kind"""
    since: datetime | None = None
    """null: unknown"""
    link: str = ""
    """the path of the call that tells more"""
    remedy: str = ""
    """what to do"""
    command: str = ""
    """a command for a terminal, to look closer or to mend it"""


class UpcomingRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run to come."""

    at: datetime
    local: str | None = None
    """the same in the time zone of its schedule"""
    timezone: str | None = None
    """that time zone"""
    job_id: UUID
    job_name: str | None = None
    task: str
    queue: str = "default"
    run_id: UUID | None = None
    """null: the run does not exist yet"""
    note: str | None = None
    """what daylight saving changes, how much later jitter may start it, or that its queue is paused"""


class UpcomingBucket(msgspec.Struct, frozen=True, kw_only=True):
    """How many runs come in one step."""

    at: datetime
    n: int = 0
    at_least: bool = False
    """whether there may be more"""


class UpcomingGroup(msgspec.Struct, frozen=True, kw_only=True):
    """How many runs of a task, of a queue, or of a task in a queue come when."""

    task: str | None = None
    """null: of all tasks"""
    queue: str | None = None
    """null: of all queues"""
    exact_until: datetime | None = None
    """from here on there may be more than were counted; null: all were counted"""
    buckets: tuple[UpcomingBucket, ...] = ()
    """without those in which nothing comes"""


class UpcomingDensity(msgspec.Struct, frozen=True, kw_only=True):
    """How many runs come when."""

    start_time: datetime
    """of the first step"""
    end_time: datetime
    step: str
    exact_until: datetime | None = None
    """from here on there may be more than were counted; null: all were counted"""
    buckets: tuple[UpcomingBucket, ...] = ()
    """without those in which nothing comes"""
    by: str | None = None
    groups: tuple[UpcomingGroup, ...] = ()
    """with `by`: those with the most runs first"""
    more_groups: int = 0
    """how many are left out"""


class UpcomingSkip(msgspec.Struct, frozen=True, kw_only=True):
    """Occurrences of a job that will not run, because clocks go forward over them."""

    at: datetime
    """when clocks go forward"""
    timezone: str
    job_id: str
    job_name: str | None = None
    task: str
    queue: str = "default"
    count: int = 1
    note: str
    """which times do not exist"""


class OccurrenceCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many occurrences had which outcome in one step."""

    at: datetime
    started: int = 0
    late: int = 0
    waiting: int = 0
    skipped: int = 0
    coalesced: int = 0
    missed: int = 0


class OccurrenceHeat(msgspec.Struct, frozen=True, kw_only=True):
    """Occurrences of a job by outcome over time."""

    start_time: datetime
    """of the first step"""
    end_time: datetime
    step: str
    looked_back_to: datetime | None = None
    """what was scheduled for before this may be missing; null: nothing is"""
    buckets: tuple[OccurrenceCounts, ...] = ()
    """without those in which there was no occurrence"""
