"""Calls on tasks, workers and queues, and run counts by task and queue."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from oncue.api import views
from oncue.api.http.answers import answer
from oncue.api.http.auth import Caller
from oncue.api.shared.context import Api
from oncue.api.shared.outcome import Changed, Outcome, outcome
from oncue.domain.fields import text
from oncue.domain.ids import ClassId
from oncue.domain.instants import Instant, rfc3339
from oncue.domain.placement import GONE, SYSTEM_QUEUE, ClassKey, read_offer
from oncue.engines.port import Count, Counter, Worker

ENDS = frozenset({Count.SUCCEEDED, Count.DEAD, Count.CANCELLED, Count.EXPIRED, Count.WITHDRAWN})


async def tasks(api: Api, request: Request, caller: Caller) -> Response:
    found = await api.engine.fleet.tasks()
    return answer({"tasks": [views.task(task) for task in sorted(found, key=lambda task: task.name)]})


async def queues(api: Api, request: Request, caller: Caller) -> Response:
    """List queues that workers take from and queues the caller has had runs in; for an administrator, all queues."""
    return answer({"queues": await _queues(api, caller)})


async def pause(api: Api, request: Request, caller: Caller) -> Outcome:
    """Pause a queue: workers claim none of its runs, except in claims already under way; active runs continue."""
    queue = _named(api, request)
    await api.engine.fleet.pause_queue(queue, api.clock.now())
    return outcome(await _shown(api, queue, caller), (Changed(caller.uid),))


async def resume(api: Api, request: Request, caller: Caller) -> Outcome:
    queue = _named(api, request)
    await api.engine.fleet.resume_queue(queue, api.clock.now())
    await api.hint_runs(None)
    return outcome(await _shown(api, queue, caller), (Changed(caller.uid),))


def _named(api: Api, request: Request) -> str:
    """The queue in the path. An unused queue may be paused, too."""
    queue: str = text(api.limits.queue)(request.path_params["queue"], "queue")
    return queue


async def _shown(api: Api, queue: str, caller: Caller) -> Response:
    found = {one["name"]: one for one in await _queues(api, caller)}
    return answer(found.get(queue) or _queue(queue, None, {}, {}, ()))


async def queue_names(api: Api, caller: Caller) -> list[str]:
    return [one["name"] for one in await _queues(api, caller)]


async def _queues(api: Api, caller: Caller) -> list[dict[str, Any]]:
    classes, counters = await api.classes(), await api.engine.history.counters(caller.sees)
    workers, paused = await api.engine.fleet.workers(), await api.engine.fleet.paused_queues()
    depths = _depths(counters)
    takers = _takers(workers, classes, api.clock.now())
    mine: dict[str, dict[ClassId, ClassKey]] = defaultdict(dict)
    for i, key in classes.items():
        if key.queue != GONE and (caller.sees is None or i in depths):
            mine[key.queue][i] = key
    names = mine.keys() | takers.keys() | (paused.keys() if caller.sees is None else set())
    hidden = set() if caller.sees is None else {SYSTEM_QUEUE}
    return [_queue(name, paused.get(name), mine[name], depths, takers.get(name, ())) for name in sorted(names - hidden)]


def _queue(
    name: str,
    paused_at: Instant | None,
    own: dict[ClassId, ClassKey],
    depths: dict[ClassId, int],
    workers: Iterable[Worker],
) -> dict[str, Any]:
    return {
        "name": name,
        "paused_since": None if paused_at is None else rfc3339(paused_at),
        "depth": sum(depths.get(i, 0) for i in own),
        "classes": [{**views.class_(key), "depth": depths.get(i, 0)} for i, key in sorted(own.items())],
        "workers": [worker.worker_id for worker in workers],
    }


def _depths(counters: Iterable[Counter]) -> dict[ClassId, int]:
    """Open runs of each class: created minus ended or withdrawn ones. Read from counters, never from lists."""
    depths: dict[ClassId, int] = defaultdict(int)
    for counter in counters:
        if counter.what is Count.CREATED:
            depths[counter.class_id] += counter.n
        elif counter.what in ENDS:
            depths[counter.class_id] -= counter.n
    return dict(depths)


def _takers(workers: Iterable[Worker], classes: dict[ClassId, ClassKey], now: Instant) -> dict[str, list[Worker]]:
    """The live workers of each queue that take new runs from it."""
    takers: dict[str, list[Worker]] = defaultdict(list)
    for worker in workers:
        if worker.draining or worker.beat_at + worker.lease < now:
            continue
        offer = read_offer(worker.info)
        queues = offer.queues if offer is not None else {classes[i].queue for i in worker.classes if i in classes}
        for queue in queues:
            takers[queue].append(worker)
    return takers


async def stats(api: Api, request: Request, caller: Caller) -> Response:
    """Count the caller's own runs; for an administrator, all users' runs."""
    counters = await api.engine.history.counters(caller.sees)
    classes = await api.classes()
    return answer(
        {
            "runs": _sums(counters),
            "tasks": _grouped("task", counters, {i: key.task for i, key in classes.items()}),
            "queues": _grouped("queue", counters, {i: key.queue for i, key in classes.items()}),
        }
    )


def _grouped(by: str, counters: Iterable[Counter], names: Mapping[ClassId, str]) -> list[dict[str, Any]]:
    groups: dict[str, list[Counter]] = defaultdict(list)
    for counter in counters:
        groups[names.get(counter.class_id, GONE)].append(counter)
    return [{by: name, **_sums(groups[name])} for name in sorted(groups)]


def _sums(counters: Iterable[Counter]) -> dict[str, int]:
    sums = dict.fromkeys(Count, 0)
    for counter in counters:
        sums[counter.what] += counter.n
    open_now = sums[Count.CREATED] - sum(sums[end] for end in ENDS)
    return {"open": open_now, **{what.value: n for what, n in sums.items()}}
