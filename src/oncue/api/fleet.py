"""Calls on tasks and the workers that run them."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from oncue.api import views
from oncue.api.answers import answer
from oncue.api.auth import Caller
from oncue.api.context import Api


async def tasks(api: Api, request: Request, caller: Caller) -> Response:
    found = await api.engine.fleet.tasks()
    return answer({"tasks": [views.task(task) for task in sorted(found, key=lambda task: task.name)]})


async def workers(api: Api, request: Request, caller: Caller) -> Response:
    return answer({"workers": [views.worker(worker) for worker in await api.engine.fleet.workers()]})
