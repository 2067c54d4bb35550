"""How the last runs of jobs ended: as sums of one job, and as a strip for each job of a list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from oncue.api.http.answers import answer
from oncue.api.http.auth import Caller
from oncue.api.jobs import snapshot
from oncue.api.listing import number, read_query
from oncue.api.shared.context import Api
from oncue.api.views import ShownEndedRun, ended_run
from oncue.domain.fields import Reader
from oncue.domain.run import State, Status
from oncue.domain.run_parts import outcomes, spread

USUAL, MOST = 200, 1_000  # runs
PARAMETERS: Mapping[str, Reader] = {"last": number(1, MOST, USUAL)}
ENDS = tuple(Status[state.name] for state in State if state.final)


async def show(api: Api, request: Request, caller: Caller) -> Response:
    last = read_query(request, PARAMETERS).get("last", USUAL)
    job_id = (await snapshot(api, request, caller)).job.job_id
    runs = [ended_run(run) for run in (await api.engine.lists.last_ended([job_id], last)).get(job_id, [])]
    return answer({"job_id": job_id, "runs": len(runs), "since": _since(runs), **_sums(runs)})


def _sums(runs: list[ShownEndedRun]) -> dict[str, Any]:
    return {
        **outcomes([run.status for run in runs], ENDS),
        "duration_ms": spread(run.duration_ms for run in runs),
        "lag_ms": spread(run.lag_ms for run in runs),
    }


def _since(runs: list[ShownEndedRun]) -> str | None:
    return runs[-1].end_time if runs else None
