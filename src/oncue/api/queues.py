"""Calls on queues: what is in them, how late and how fast they are, pause, resume."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from oncue.api import views
from oncue.api.fleet import ENDS
from oncue.api.http.answers import answer
from oncue.api.http.auth import Caller
from oncue.api.shared.context import Api
from oncue.api.shared.outcome import Changed, Outcome, outcome
from oncue.domain.buckets import LAG, quantile
from oncue.domain.errors import NotFound
from oncue.domain.fields import text
from oncue.domain.ids import ClassId
from oncue.domain.instants import MINUTE, SECOND, Duration, Instant, rfc3339
from oncue.domain.placement import GONE, SYSTEM_QUEUE, ClassKey, read_offer
from oncue.engines.gauges import MOST_CLASSES, Backlog
from oncue.engines.port import Count, Counter, Measure, Worker, WorkerStatus

LATELY = Duration(5 * MINUTE)  # what lag and rate are computed of
MOST_MEASURED = 500  # classes whose lag and rate one answer reads: those of the queues with the most open runs

T = TypeVar("T")
Classes = Mapping[ClassId, ClassKey]


class _Visible(msgspec.Struct, frozen=True):
    """The queues that the caller may see."""

    classes: dict[str, dict[ClassId, ClassKey]]  # of each queue
    depths: dict[ClassId, int]
    workers: dict[str, list[Worker]]
    paused: dict[str, Instant]

    @property
    def names(self) -> list[str]:
        return sorted(self.classes.keys() | self.workers.keys() | self.paused.keys())

    def only(self, name: str) -> _Visible:
        return _Visible(_one(self.classes, name), self.depths, _one(self.workers, name), _one(self.paused, name))


class _Seen(msgspec.Struct, frozen=True):
    """What the caller may see of them."""

    now: Instant
    visible: _Visible
    backlog: Mapping[ClassId, Backlog]
    paused_by: Mapping[str, str | None]
    lags: Mapping[str, Sequence[int]]  # of attempts that ended lately, by bucket; of queues that were measured


async def listed(api: Api, request: Request, caller: Caller) -> Response:
    """List queues that workers take from and queues the caller has had runs in; for an administrator, all queues."""
    seen = await _seen(api, caller)
    return answer({"queues": [_queue(name, seen) for name in seen.visible.names]})


async def show(api: Api, request: Request, caller: Caller) -> Response:
    queue = _named(api, request)
    seen = await _seen(api, caller, queue)
    if queue not in seen.visible.names:
        raise NotFound
    return answer(_queue(queue, seen))


async def pause(api: Api, request: Request, caller: Caller) -> Outcome:
    """Pause a queue: workers claim none of its runs, except in claims already under way; active runs continue."""
    queue = _named(api, request)
    await api.engine.fleet.pause_queue(queue, api.clock.now(), caller.uid)
    await api.hint_runs(None)  # so that workers do not ask in vain for what they have read
    return outcome(answer(_queue(queue, await _seen(api, caller, queue))), (Changed(caller.uid),))


async def resume(api: Api, request: Request, caller: Caller) -> Outcome:
    queue = _named(api, request)
    await api.engine.fleet.resume_queue(queue, api.clock.now())
    await api.hint_runs(None)
    return outcome(answer(_queue(queue, await _seen(api, caller, queue))), (Changed(caller.uid),))


def _named(api: Api, request: Request) -> str:
    """The queue in the path. An unused queue may be paused, too."""
    queue: str = text(api.intake.limits.queue)(request.path_params["queue"], "queue")
    return queue


async def queue_names(api: Api, caller: Caller) -> list[str]:
    return (await _visible(api, caller)).names


async def _visible(api: Api, caller: Caller) -> _Visible:
    known, depths = await api.classes(), _depths(await api.engine.history.counters(caller.sees))
    all_of_them = caller.sees is None
    classes: dict[str, dict[ClassId, ClassKey]] = defaultdict(dict)
    for i, key in known.items():
        if key.queue != GONE and (all_of_them or (i in depths and key.queue != SYSTEM_QUEUE)):
            classes[key.queue][i] = key
    takers = _takers(await api.engine.fleet.workers(), known, api.clock.now())
    paused = await api.engine.fleet.paused_queues()
    if not all_of_them:
        takers.pop(SYSTEM_QUEUE, None)
        paused = {name: at for name, at in paused.items() if name in classes or name in takers}
    return _Visible(classes, depths, takers, paused)


async def _seen(api: Api, caller: Caller, only: str | None = None) -> _Seen:
    visible, now = await _visible(api, caller), api.clock.now()
    if only is not None:
        visible = visible.only(only)
    depths, all_of_them = visible.depths, caller.sees is None
    open_ones = [i for own in visible.classes.values() for i in own if depths.get(i, 0) > 0]
    wanted = sorted(open_ones, key=lambda i: -depths[i])[:MOST_CLASSES]
    return _Seen(
        now,
        visible,
        await api.engine.history.backlog(caller.sees, wanted, now),
        await _paused_by(api, caller) if visible.paused and all_of_them else {},
        await _lags(api, visible, now) if all_of_them else {},
    )


def _one(of: Mapping[str, T], name: str) -> dict[str, T]:
    return {name: of[name]} if name in of else {}


async def _paused_by(api: Api, caller: Caller) -> dict[str, str | None]:
    found = await api.engine.fleet.paused_by()
    return {queue: await api.owner_of(uid, caller) for queue, uid in found.items()}


async def _lags(api: Api, visible: _Visible, now: Instant) -> dict[str, Sequence[int]]:
    classes, depths = visible.classes, visible.depths
    measured, left = dict[str, list[ClassId]](), MOST_MEASURED
    for queue in sorted(classes, key=lambda one: -sum(depths.get(i, 0) for i in classes[one])):
        if len(classes[queue]) <= left:
            measured[queue] = list(classes[queue])
            left -= len(classes[queue])
    since, until = _lately(now)
    found = await api.engine.history.series_by(Measure.LAG, since, until, MINUTE, list(measured.values()))
    return {
        queue: [sum(bucket) for bucket in zip(*(point.counts for point in points), strict=True)]
        for queue, points in zip(measured, found, strict=True)
    }


def _lately(now: Instant) -> tuple[Instant, Instant]:
    """The minutes that lag and rate are computed of: the last is not over yet."""
    return Instant(now - now % MINUTE - LATELY + MINUTE), Instant(now + 1)


def _queue(name: str, seen: _Seen) -> dict[str, Any]:
    visible, depths = seen.visible, seen.visible.depths
    own, paused_at = visible.classes.get(name, {}), visible.paused.get(name)
    backlog = [seen.backlog[i] for i in own if i in seen.backlog]
    oldest = min((one.oldest_due for one in backlog if one.oldest_due is not None), default=None)
    due, more, lags = sum(one.due for one in backlog), any(one.more for one in backlog), seen.lags.get(name)
    since, _ = _lately(seen.now)
    rate = None if lags is None else sum(lags) * MINUTE / max(SECOND, seen.now - since)
    workers = visible.workers.get(name, ())
    return {
        "name": name,
        "paused_since": None if paused_at is None else rfc3339(paused_at),
        "paused_by": seen.paused_by.get(name),
        "depth": sum(depths.get(i, 0) for i in own),
        "due": due,
        "more": more,
        "running": sum(one.running for one in backlog),
        "oldest_due_seconds": None if oldest is None else round(max(0, seen.now - oldest) / SECOND, 3),
        "lag_p50_ms": _lag_ms(lags, 0.5),
        "lag_p99_ms": _lag_ms(lags, 0.99),
        "rate_per_minute": None if rate is None else round(rate, 3),
        "drain_seconds": _drain_seconds(due, rate) if paused_at is None and not more else None,
        "classes": [_class(key, depths.get(i, 0), seen.backlog.get(i)) for i, key in sorted(own.items())],
        "workers": [one.worker_id for one in workers if one.status(seen.now) is WorkerStatus.ACTIVE],
        "draining_workers": [one.worker_id for one in workers if one.status(seen.now) is WorkerStatus.DRAINING],
    }


def _class(key: ClassKey, depth: int, backlog: Backlog | None) -> dict[str, Any]:
    return {**views.class_(key), "depth": depth, "due": 0 if backlog is None else backlog.due}


def _lag_ms(lags: Sequence[int] | None, share: float) -> float | None:
    found = None if not lags else quantile(LAG, lags, share)
    return None if found is None else round(found * 1_000, 3)


def _drain_seconds(due: int, rate: float | None) -> float | None:
    if rate is None or (due and not rate):
        return None
    return round(due / rate * 60, 1) if due else 0.0


def _depths(counters: Iterable[Counter]) -> dict[ClassId, int]:
    """Open runs of each class: created minus ended or withdrawn ones. Read from counters, never from lists."""
    depths: dict[ClassId, int] = defaultdict(int)
    for counter in counters:
        if counter.what is Count.CREATED:
            depths[counter.class_id] += counter.n
        elif counter.what in ENDS:
            depths[counter.class_id] -= counter.n
    return dict(depths)


def _takers(workers: Iterable[Worker], classes: Classes, now: Instant) -> dict[str, list[Worker]]:
    """The live workers of each queue, also draining ones."""
    takers: dict[str, list[Worker]] = defaultdict(list)
    for worker in workers:
        if worker.status(now) is WorkerStatus.NO_HEARTBEAT:
            continue
        offer = read_offer(worker.info)
        queues = offer.queues if offer is not None else {classes[i].queue for i in worker.classes if i in classes}
        for queue in queues:
            takers[queue].append(worker)
    return takers
