"""Calls on tasks, and run counts by task and queue."""

from __future__ import annotations

from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from oncue.api import views
from oncue.api.http.answers import answer
from oncue.api.http.auth import Caller
from oncue.api.shared.context import Api
from oncue.domain.ids import ClassId
from oncue.domain.placement import GONE, read_offer
from oncue.engines.port import Count, Counter, Task, WorkerStatus

ENDS = frozenset({Count.SUCCEEDED, Count.DEAD, Count.CANCELLED, Count.EXPIRED, Count.WITHDRAWN})


async def tasks(api: Api, request: Request, caller: Caller) -> Response:
    return answer({"tasks": await shown_tasks(api, await api.engine.fleet.tasks())})


async def shown_tasks(api: Api, found: Sequence[Task]) -> list[dict[str, Any]]:
    """Show tasks by name, each with how many live workers have it and take runs."""
    now = api.clock.now()
    active = [one for one in await api.engine.fleet.workers() if one.status(now) is WorkerStatus.ACTIVE]
    offers = [offer for one in active if (offer := read_offer(one.info)) is not None]
    workers = Tally(name for offer in offers for name in offer.tasks)
    by_name = sorted(found, key=lambda task: task.name)
    return [views.task(task) | {"workers": workers[task.name]} for task in by_name]


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
