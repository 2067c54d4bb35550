"""What needs attention: the cluster, jobs that fail, dead letters, missed occurrences. In words for people."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import AsyncIterator, Iterable

from starlette.requests import Request
from starlette.responses import Response

from oncue.api.cluster_problems import of_cluster, plural, time_of
from oncue.api.fleet import ENDS
from oncue.api.http.answers import answer
from oncue.api.http.auth import Caller
from oncue.api.job_health import Health, is_unwell
from oncue.api.shared.context import Api
from oncue.domain.diagnosis import State
from oncue.domain.ids import ClassId
from oncue.domain.instants import HOUR, MINUTE, SECOND, Duration, Instant
from oncue.domain.plain_text import printable
from oncue.engines.port import Count, Counter, DeadRuns
from oncue.shapes.overview import KnownProblem

MOST_SHOWN = 50
LETTERS_LOOKED_AT = 200  # the newest: whose jobs may be failing
MOST_FAILING = 5  # jobs that are named
USUAL_FOR = Duration(24 * HOUR)  # what is usual is counted for this long
KNOWN_FOR = Duration(4 * HOUR)  # at least; before that nothing is usual yet
FIRST_SOUGHT = Duration(7 * 24 * HOUR)  # how far back
RISING, FEWEST_RISING = 3, 5  # times as many as usual, and at least so many
ORDER = {State.PROBLEM.value: 0, State.WARNING.value: 1}


async def show(api: Api, request: Request, caller: Caller) -> Response:
    """List problems, the most severe first; of others than administrators only those that concern their runs."""
    gauges, now = await api.gauges.read(), api.clock.now()
    if caller.sees is None:
        own, letters = None, sum(gauges.dead_letters.values())
    else:
        counters = await api.engine.history.counters(caller.sees)
        own, letters = open_runs(counters), _open_letters(counters)
    found = list(of_cluster(gauges, own))
    for more in (_failing(api, caller), _dead(api, caller, letters, now), _missed(api, caller, now)):
        found += [problem async for problem in more]
    found.sort(key=lambda one: ORDER[one.severity])
    return answer({"problems": found[:MOST_SHOWN], "more": len(found) > MOST_SHOWN})


def open_runs(counters: Iterable[Counter]) -> dict[ClassId, int]:
    runs: Tally[ClassId] = Tally()
    for one in counters:
        runs[one.class_id] += one.n if one.what is Count.CREATED else -one.n if one.what in ENDS else 0
    return dict(runs)


def _open_letters(counters: Iterable[Counter]) -> int:
    gone = (Count.REQUEUED, Count.DISCARDED)
    return sum(one.n if one.what is Count.DEAD else -one.n for one in counters if one.what in (Count.DEAD, *gone))


async def _failing(api: Api, caller: Caller) -> AsyncIterator[KnownProblem]:
    """Yield the jobs whose last run is dead, of those that the newest dead letters belong to."""
    letters = await api.engine.lists.dead_by_job(caller.sees, LETTERS_LOOKED_AT)
    if not letters:
        return
    last = await api.engine.lists.last_and_next([one.job_id for one in letters])
    failing = [one for one in letters if is_unwell(Health.FAILING, last[one.job_id].last)]
    for one in failing[:MOST_FAILING]:
        snap = await api.engine.jobs.read(caller.sees, one.job_id)
        run = last[one.job_id].last
        if snap is not None and run is not None and snap.job.spec.schedule.recurring:
            name = printable(snap.job.spec.name or snap.job.spec.key or snap.job.spec.task)
            yield _failing_job(one, name, printable(run.error_type or "an error"))


def _failing_job(one: DeadRuns, name: str, error: str) -> KnownProblem:
    return KnownProblem(
        kind="failing_job",
        severity=State.WARNING,
        title=f"The job {name} is failing",
        detail=f"Its last run ended with {error}; it has {plural(one.n, 'dead letter')} among the newest.",
        count=one.n,
        since=time_of(one.first),
        link=f"/v1/dead-letters?job_id={one.job_id}",
        remedy="Read the error, correct the job or its task, then run its dead letters again.",
        command=f"oncue dead list --job {one.job_id}",
    )


async def _dead(api: Api, caller: Caller, letters: int, now: Instant) -> AsyncIterator[KnownProblem]:
    """Yield the open dead letters, and whether there are more lately than usual."""
    if letters <= 0:
        return
    since = Instant(now - now % HOUR - HOUR)
    rise = await _rise(api, caller, since, now)
    yield KnownProblem(
        kind="dead_letters",
        severity=State.PROBLEM if rise else State.WARNING,
        title=f"{plural(letters, 'dead letter')}{', more than usual' if rise else ''}",
        detail=f"Runs that failed permanently, neither run again nor discarded.{rise}",
        count=letters,
        since=time_of(since) if rise else None,
        link="/v1/dead-letters",
        remedy="Read the errors, then run them again or discard them.",
        command="oncue dead list",
    )


async def _rise(api: Api, caller: Caller, since: Instant, now: Instant) -> str:
    """Say that more runs died since then, in this hour and the one before, than usual; else, or if too new: nothing."""
    series, until = api.engine.history.series, Instant(now + SECOND)
    points = await series(Count.DEAD, Instant(since - USUAL_FOR), until, HOUR, uid=caller.sees)
    lately = sum(sum(one.counts) for one in points if one.at >= since)
    before = sum(sum(one.counts) for one in points if one.at < since)
    if lately < FEWEST_RISING or lately <= RISING * 2 * before * HOUR / USUAL_FOR:
        return ""
    runs = await series(Count.CREATED, Instant(since - FIRST_SOUGHT), since, HOUR, uid=caller.sees)
    known = min(USUAL_FOR, since - runs[0].at) if runs else 0
    usual = 2 * before * HOUR / max(known, HOUR)
    if known < KNOWN_FOR or lately <= RISING * usual:
        return ""
    return f" {lately:,} died in this hour and the one before; usually {usual:.0f} do in two hours."


async def _missed(api: Api, caller: Caller, now: Instant) -> AsyncIterator[KnownProblem]:
    """Yield how many occurrences were missed in the last hour; of one user, in this hour and the one before."""
    step = MINUTE if caller.sees is None else HOUR
    since = Instant(now - now % step - HOUR)
    points = await api.engine.history.series(Count.MISSED, since, Instant(now + SECOND), step, uid=caller.sees)
    missed = sum(sum(one.counts) for one in points)
    if missed:
        yield KnownProblem(
            kind="missed",
            severity=State.WARNING,
            title=f"{plural(missed, 'occurrence')} {'was' if missed == 1 else 'were'} missed lately",
            detail="Their schedules asked for runs that were not planned in time, or did not start in time.",
            count=missed,
            since=time_of(points[0].at),
            link="/v1/stats/series?what=missed",
            remedy="See whether a scheduler was stopped; `oncue jobs occurrences` tells of one job, and catch_up and "
            "catch_up_window decide what is caught up with.",
            command="oncue stats",
        )
