"""Counts and measures over time, in all or by task or queue."""

from __future__ import annotations

from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from oncue.api.http.answers import answer
from oncue.api.http.auth import Caller, forbidden
from oncue.api.listing import instant, read_query
from oncue.api.shared.context import Api
from oncue.domain.buckets import LAG, RUN, quantile
from oncue.domain.errors import Invalid
from oncue.domain.fields import Reader, choice, duration, takes
from oncue.domain.ids import ClassId
from oncue.domain.instants import DAY, HOUR, MICROSECOND, MINUTE, Duration, Instant, rfc3339, show_duration
from oncue.domain.placement import GONE
from oncue.engines.port import Count, Measure, Point
from oncue.engines.series import MINUTES_KEPT, MOST_POINTS

MOST_LINES = 20  # tasks or queues with a line of their own
MOST_KINDS = 6  # of counts and measures in one answer
ROWS_READ = 50_000  # about: of the classes that lines are made of
OTHER = "other"
STEPS = tuple(Duration(n * MINUTE) for n in (1, 5, 15, 30, 60, 180, 360, 720, 1_440, 10_080, 44_640))
SHARES = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99}

# What is discarded has no time of its own, and so no series.
COUNTS = {what.value: what for what in Count if what is not Count.DISCARDED}
MEASURES = {"attempts": Measure.RUN, "lag": Measure.LAG, "run_time": Measure.RUN}
EDGES = {"lag": LAG, "run_time": RUN}
KINDS: Mapping[str, Count | Measure] = {**COUNTS, **MEASURES}


@takes(type="string", examples=["succeeded,dead"])
def _kinds(raw: str, path: str) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(raw.split(",")))
    if not all(name in KINDS for name in found):
        raise Invalid.of(path, "unknown_value", f"must be one or more of {', '.join(KINDS)}, separated by commas")
    if len(found) > MOST_KINDS:
        raise Invalid.of(path, "too_many", f"has {len(found)} entries; at most {MOST_KINDS} are allowed")
    return found


PARAMETERS: Mapping[str, Reader] = {
    "what": _kinds,
    "by": choice({"task": "task", "queue": "queue"}),
    "from": instant,
    "to": instant,
    "step": duration(MINUTE),
}


class _Asked(msgspec.Struct, frozen=True):
    kinds: tuple[str, ...]
    by: str | None
    since: Instant
    until: Instant
    step: Duration

    @property
    def window(self) -> tuple[Instant, Instant, Duration]:
        return self.since, self.until, self.step


async def show(api: Api, request: Request, caller: Caller) -> Response:
    """Answer an administrator about all runs, and others about their own in total, by the hour."""
    now = api.clock.now()
    asked = _asked(read_query(request, PARAMETERS), caller, now)
    lines: list[dict[str, Any]] = []
    groups = await _groups(api, asked) if asked.by is not None else {}
    for name in asked.kinds:
        whole = await api.engine.history.series(KINDS[name], *asked.window, uid=caller.sees)
        if asked.by is None:
            lines.append(_line(name, None, whole))
        else:
            parts = await api.engine.history.series_by(KINDS[name], *asked.window, list(groups.values()))
            named = [_line(name, group, points) for group, points in zip(groups, parts, strict=True) if points]
            lines += sorted(named, key=lambda line: -line["total"])
            lines += [_line(name, OTHER, rest) for rest in [_rest(whole, parts)] if rest]
    return answer(
        {
            "start_time": rfc3339(asked.since),
            "end_time": rfc3339(asked.until),
            "step": show_duration(asked.step),
            "by": asked.by,
            "edges": {name: EDGES[name] for name in asked.kinds if name in EDGES},
            "minutes_from": rfc3339(Instant(now - MINUTES_KEPT)) if caller.sees is None else None,
            "series": lines,
        }
    )


def _asked(given: Mapping[str, Any], caller: Caller, now: Instant) -> _Asked:
    kinds, by = given.get("what", (Count.SUCCEEDED.value, Count.DEAD.value)), given.get("by")
    if caller.sees is not None:
        _refuse_what_is_not_kept(kinds, by)
    finest = MINUTE if caller.sees is None else HOUR
    until = given.get("to", Instant(now + MICROSECOND))  # with what happened this very moment
    since = given.get("from", Instant(until - (HOUR if caller.sees is None else DAY)))
    if until <= since:
        raise Invalid.of("to", "bad_window", "must be later than from")
    most = MOST_POINTS // (len(kinds) * (MOST_LINES + 1 if by else 1))
    fitting = _fitting(Duration(until - since), most, finest, kept_by_minute=since >= now - MINUTES_KEPT)
    step = given.get("step", fitting)
    if step % finest:
        kept = "counts are kept by the minute" if finest == MINUTE else "a user's own counts are kept by the hour"
        message = f"must be a multiple of {show_duration(finest)}: {kept}"
        raise Invalid.of("step", "bad_step", message)
    since = Instant(since - since % step)
    if until - since > most * step:
        message = f"gives more than {most:,} points a line in this window; use {show_duration(fitting)} or more"
        raise Invalid.of("step", "too_many", message)
    return _Asked(kinds, by, since, until, step)


def _refuse_what_is_not_kept(kinds: Sequence[str], by: str | None) -> None:
    measures = [name for name in kinds if name in MEASURES]
    if measures:
        kept = "Of one user's runs only counts are kept, by the hour"
        raise forbidden(f"{kept}; what={measures[0]} needs an admin key. Ask for counts like succeeded or dead.")
    if by is not None:
        raise forbidden(f"Of one user's runs only totals are kept; by={by} needs an admin key. Leave it out.")


def _fitting(length: Duration, most: int, finest: Duration, *, kept_by_minute: bool) -> Duration:
    """Return the smallest usual step with which the window fits, or the smallest whole number of days."""
    for step in STEPS:
        if step >= (finest if kept_by_minute else HOUR) and length <= (most - 1) * step:
            return step
    return Duration(-(-length // ((most - 1) * DAY)) * DAY)


async def _groups(api: Api, asked: _Asked) -> dict[str, list[ClassId]]:
    """Return the tasks or queues with the most runs ever, each with its classes.

    The longer the window, the fewer, so that about as many rows are read. One with too many classes is `other`.
    """
    by_minute = min(asked.until - asked.since, MINUTES_KEPT) // MINUTE
    busiest = 6 if any(name in MEASURES for name in asked.kinds) else 1  # buckets of a minute that have something
    room = max(5, ROWS_READ // (len(asked.kinds) * (by_minute + 1) * busiest))
    classes = await api.classes()
    of: dict[str, list[ClassId]] = defaultdict(list)
    for class_id, key in classes.items():
        if key.queue != GONE:
            of[key.task if asked.by == "task" else key.queue].append(class_id)
    runs = await api.class_totals.runs()
    sizes = Tally({name: sum(runs.get(i, 0) for i in ids) for name, ids in of.items()})
    chosen: dict[str, list[ClassId]] = {}
    for name, n in sizes.most_common():
        if len(chosen) == MOST_LINES or not n:
            break
        if len(of[name]) <= room:
            chosen[name] = of[name]
            room -= len(of[name])
    return chosen


def _rest(whole: Sequence[Point], parts: Sequence[Sequence[Point]]) -> list[Point]:
    """Return what is in no part. Counts may be folded in between two reads: nothing is less than none."""
    known: dict[Instant, list[int]] = {}
    for point in (point for points in parts for point in points):
        sums = known.setdefault(point.at, [0] * len(point.counts))
        for place, n in enumerate(point.counts):
            sums[place] += n
    rest = [Point(one.at, _less(one.counts, known.get(one.at, [0] * len(one.counts)))) for one in whole]
    return [point for point in rest if any(point.counts)]


def _less(counts: Sequence[int], known: Sequence[int]) -> tuple[int, ...]:
    return tuple(max(0, n - m) for n, m in zip(counts, known, strict=True))


def _line(what: str, name: str | None, points: Sequence[Point]) -> dict[str, Any]:
    shown = [_point(what, point) for point in points]
    return {"what": what, "name": name, "total": sum(point["n"] for point in shown), "points": shown}


def _point(what: str, point: Point) -> dict[str, Any]:
    edges = EDGES.get(what)
    found: dict[str, Any] = {"at": rfc3339(point.at), "n": sum(point.counts), "buckets": None}
    if edges is None:
        return found | dict.fromkeys(SHARES)
    known = {name: quantile(edges, point.counts, share) for name, share in SHARES.items()}
    measured = {name: None if value is None else round(value * 1_000, 3) for name, value in known.items()}
    return {**found, "buckets": point.counts, **measured}
