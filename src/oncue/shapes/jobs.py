"""A job: the fields that define one, and how it, its occurrences and its schedule are shown.

A new field goes into `JobFields`, and into `PlainFields` if it is stored and shown as it is sent. Else it goes into
`Job` as it is shown, and into `Spec` of domain/job.py as it is stored: reader and view follow from its type there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, NamedTuple, Protocol, TypedDict
from uuid import UUID

import msgspec

from oncue.shapes.runs import EndedRun, LastRun, Run
from oncue.shapes.schedules import Length as Length
from oncue.shapes.schedules import Schedule
from oncue.shapes.schedules import When as When


class Range(NamedTuple):
    """The lowest and highest whole number. Only requests are checked against it: stored values stay readable."""

    least: int
    most: int


class Named(Protocol):
    """A task, which is sent by its name."""

    @property
    def name(self) -> str: ...


class JobFields(TypedDict, total=False):
    """Every field of a job that can be set. Only `task` is required to create one.

    Durations may be text ("30s") or timedeltas, instants text (RFC 3339) or datetimes: aware, or in a schedule with a
    `timezone` naive. Time zones may be text ("Europe/Berlin") or ZoneInfo.
    """

    task: str | Named
    """a task that some worker has registered"""
    name: str | None
    """a name for display, up to 200 characters"""
    schedule: When | Schedule | Mapping[str, Any]
    """[when it runs](schedules.md): a string or an object"""
    payload: Mapping[str, Any] | None
    """the task's arguments, an object of up to 8 MiB ([large ones](storage.md))"""
    queue: str
    """workers take runs from the queues they name"""
    priority: str
    """[who goes first](sharing.md#who-goes-first): `high` goes before `normal` that was due up to 5 minutes \
earlier, and `normal` before `low`"""
    tags: Sequence[str]
    """up to 50"""
    max_retries: int
    """retries after failures; the task may set another default"""
    retry: Mapping[str, Any]
    """`{"backoff": "2s", "factor": 2, "max_backoff": "5m", "jitter": 0.2}`"""
    timeout: Length
    """the longest time that one attempt may take"""
    overlap: str
    """[what happens while the previous run is still active](schedules.md): `queue`, `skip`, `allow`, `replace`"""
    catch_up: str
    """which late occurrences still run: `last`, `skip`, `all`"""
    catch_up_window: Length
    """how old they may be"""
    start_within: Length | None
    """a run that does not start within this time expires"""
    on_lost: str
    """what happens when its worker is lost: `rerun` starts it again, `dead` never does"""
    on_left_behind: str
    """what its group and its concurrency key do while its function [does not \
stop](tasks.md#timeouts-and-stopping): `hold` waits until it has ended, `release` goes on"""
    key: str | None
    """the user's own [stable](#changing-a-job) key, up to 200 characters; unique among active and paused jobs"""
    group: str | None
    """jobs of one user with one group run one after another"""
    concurrency: Mapping[str, Any] | None
    """`{"key", "limit"}`: at most `limit` runs at a time among the jobs with this key"""
    rate: Mapping[str, Any] | None
    """`{"limit", "per", "key"}`: at most `limit` starts in any `per` among the jobs with this key; [without a \
key](schedules.md#rate-limits), among those of this task"""
    resources: Mapping[str, Any]
    """`{"cpu", "memory_mb", "slots"}`: starts where a worker has [this much \
free](sharing.md#slots-cpu-memory-labels); limits for processes and commands"""
    labels: Sequence[str]
    """runs only on workers that have all of them"""
    preemptible: bool
    """may be [stopped for a high-priority run](sharing.md#preemption), and restarts later"""
    notify: Sequence[Mapping[str, Any]] | None
    """[whom to tell](notifications.md) of what, up to 10 entries like `{"on": ["failed"], "email": \
"a@example.org"}`; null: the user's default, `[]`: no one"""


class PlainFields(msgspec.Struct, frozen=True, kw_only=True):
    """Fields of a job that are stored and shown exactly as they are sent, each with its default."""

    name: str | None = None
    queue: str = "default"
    tags: tuple[str, ...] = ()
    max_retries: Annotated[int, Range(0, 10_000)] = 3
    key: str | None = None
    group: str | None = None
    labels: tuple[str, ...] = ()
    preemptible: bool = False


class Warned(msgspec.Struct, frozen=True, kw_only=True):
    """Something in a request that was accepted and should not stay so."""

    path: str
    code: str
    """`plain_secret`: a token in plain text; name a secret instead; `same_stamp`: a declaration has other \
jobs than the one before, and the same stamp; `no_worker`, `no_labels`, `too_big`: no live worker can run the job now, \
for the reason that `explain` would give; `lost`: the payload is no longer in object storage"""
    message: str = ""
    """for people"""


class Job(PlainFields, frozen=True, kw_only=True):
    """A job: its definition with every default filled in, and its status."""

    job_id: UUID
    user_id: str | None = None
    status: str
    task: str
    schedule: dict[str, Any] = {}
    payload: Any = None
    priority: str = "normal"
    retry: dict[str, Any] = {}
    timeout: str | None = None
    overlap: str | None = None
    catch_up: str | None = None
    catch_up_window: str | None = None
    start_within: str | None = None
    on_lost: str | None = None
    on_left_behind: str | None = None
    concurrency: dict[str, Any] | None = None
    rate: dict[str, Any] | None = None
    resources: dict[str, Any] = {}
    notify: list[dict[str, Any]] | None = None
    next_run_at: datetime | None = None
    last_run: LastRun | None = None
    recent: tuple[EndedRun, ...] | None = None
    large: dict[str, int] = {}
    created_at: datetime | None = None
    updated_at: datetime | None = None
    version: int | None = None
    warnings: tuple[Warned, ...] = ()


READ_ONLY = tuple(name for name in Job.__struct_fields__ if name not in JobFields.__annotations__)


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """The median, the 95th percentile and the largest of some values; null without any."""

    p50: int | None = None
    p95: int | None = None
    max: int | None = None


class JobStats(msgspec.Struct, frozen=True, kw_only=True):
    """Sums over the last runs of a job that ended."""

    job_id: UUID
    runs: int = 0
    """how many were looked at"""
    since: datetime | None = None
    """when the oldest of them ended"""
    outcomes: dict[str, int] = {}
    """how many of them ended in each status"""
    success_rate: float | None = None
    """the share that succeeded, from 0 to 1; cancelled runs do not count"""
    duration_ms: Spread = Spread()
    """how long their last attempts took"""
    lag_ms: Spread = Spread()
    """how late their first attempts started"""


class JobState(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `jobs.status`."""

    job_id: UUID
    latest_run: Run | None = None


class Occurrence(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one nominal instant, or of `count` consecutive ones up to `until` with the same outcome."""

    scheduled_for: datetime
    """the nominal instant; of a time range, its first"""
    outcome: str
    """`started`; `late`, by more than 2 s; `waiting`; or without a run: `skipped`, `coalesced` into another run, \
`missed`"""
    reason: str | None = None
    """why it has no run, or what created the run instead of the schedule: `catch_up`, `backfill`"""
    run_id: UUID | None = None
    """its run; without one, the run it was coalesced into or that blocked it"""
    lag_ms: int | None = None
    """how late its first attempt started"""
    until: datetime | None = None
    """the last instant of a time range with one outcome"""
    count: int = 1
    """the number of occurrences"""


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Why a run has or has not started. `holder` is the run that blocks it, `position` its position in the queue; \
`until` is when the reason is over, if that is known."""

    state: str
    reason: str
    detail: str = ""
    holder: UUID | None = None
    position: int | None = None
    until: datetime | None = None


class PreviewedOccurrence(msgspec.Struct, frozen=True, kw_only=True):
    at: datetime
    local: str = ""
    note: str | None = None


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """When a schedule fires, in words and as instants. `skipped` lists those that `dst_gap: skip` leaves out."""

    description: str = ""
    occurrences: tuple[PreviewedOccurrence, ...] = ()
    skipped: tuple[str, ...] = ()
