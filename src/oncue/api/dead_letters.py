"""Calls on dead letters."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from oncue.api import views
from oncue.api.answers import answer
from oncue.api.auth import Caller
from oncue.api.context import Api
from oncue.api.pages import page, wanted_page
from oncue.api.reading import as_uuid, read_object
from oncue.domain.errors import Invalid, Problem
from oncue.domain.fields import read_fields
from oncue.domain.ids import RunId
from oncue.domain.instants import Instant
from oncue.domain.job import decode_spec
from oncue.domain.policy import expires_at
from oncue.domain.run import NewRun, RunView, State, Trigger

MOST_AT_ONCE = 1_000
READ_TOGETHER = 16


async def show(api: Api, request: Request, caller: Caller) -> Response:
    wanted = wanted_page(request, caller)
    found = await api.engine.history.dead_letters(caller.sees, wanted.limit, wanted.after)
    classes, now = await api.classes_of(*found.items), api.clock.now()
    return answer(page("dead_letters", found, lambda run: views.dead_letter(run, classes, now), wanted))


async def requeue(api: Api, request: Request, caller: Caller) -> Response:
    """A new run for each of these that is still a dead letter of the caller's; the others are passed over."""
    run_ids = _run_ids(await read_object(request))
    letters = [run for run in await _read(api, run_ids, caller) if run.state is State.DEAD]
    now = api.clock.now()
    # one microsecond apart: ids in the order of their making keep what is made together together
    new = [again(run, RunId(api.new_id(Instant(now + i))), now) for i, run in enumerate(letters)]
    made = await api.engine.history.requeue(new, now) if new else frozenset()
    if made:
        await api.hint_runs(now)
    return answer({"count": len(made), "run_ids": sorted(made)}, HTTPStatus.ACCEPTED)


def again(run: RunView, run_id: RunId, now: Instant) -> NewRun:
    """The run that a dead letter is tried anew by: its definition and payload, its own attempts."""
    assert run.spec is not None, "a dead letter keeps its definition"
    spec = decode_spec(run.spec)
    return NewRun(
        run_id=run_id,
        job_id=run.job_id,
        uid=run.uid,
        class_id=run.class_id,
        wanted=now,
        nominal=run.nominal,
        job_version=run.job_version,
        origin=run_id,
        trigger=Trigger.REQUEUE,
        lanes=spec.lanes(run.uid, run.job_id),
        spec=run.spec,
        payload=run.payload,
        expires_at=expires_at(spec.start_within, now),
        parent=run.run_id,
    )


async def _read(api: Api, run_ids: list[RunId], caller: Caller) -> list[RunView]:
    found: list[RunView | None] = []
    for start in range(0, len(run_ids), READ_TOGETHER):
        together = run_ids[start : start + READ_TOGETHER]
        found += await asyncio.gather(*(api.engine.history.run(caller.sees, run_id) for run_id in together))
    return [run for run in found if run is not None]


def _run_ids(raw: dict[str, Any]) -> list[RunId]:
    problems: list[Problem] = []
    found = read_fields(raw, {"run_ids": _ids}, problems)
    if "run_ids" not in raw:
        problems.append(Problem("run_ids", "required", "list the ids of the runs to requeue"))
    if problems:
        raise Invalid(*problems)
    run_ids: list[RunId] = found["run_ids"]
    return run_ids


def _ids(raw: Any, path: str) -> list[RunId]:
    if not isinstance(raw, list) or not 1 <= len(raw) <= MOST_AT_ONCE:
        raise Invalid.of(path, "wrong_type", f"is a list of 1 to {MOST_AT_ONCE} ids of runs")
    found = [as_uuid(one) if isinstance(one, str) else None for one in raw]
    if None in found:
        raise Invalid.of(f"{path}.{found.index(None)}", "bad_id", "is not the id of a run")
    return list(dict.fromkeys(RunId(one) for one in found if one is not None))
