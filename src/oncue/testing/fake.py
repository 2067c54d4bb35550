"""Stand-ins for a server: one that records what is enqueued, and one that runs it at once."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from contextvars import ContextVar
from typing import Any
from uuid import UUID, uuid4

import httpx2
import msgspec

from oncue.client import AsyncClient, Client
from oncue.shapes.jobs import Job
from oncue.shapes.runs import WholeRun
from oncue.testing.calls import Calls, SomeTasks
from oncue.testing.here import outside_of_the_loop
from oncue.testing.single_run import FinishedRun, finished
from oncue.testing.transport import RUNS, URL, AsyncTransport, Transport, as_json, problem, refusal

KEY = "test"
DEEPEST = 100  # runs within runs
IS_RUN = re.compile(RUNS + "[^/]+")
READS = 3  # of a run that was only recorded: whoever asks more often waits for it

_depth: ContextVar[int] = ContextVar("depth", default=0)


class OncueFake(Calls):
    """Records what handles enqueue; nothing runs, and nothing leaves the process."""

    fixture = "oncue_fake"

    def __init__(self, tasks: SomeTasks) -> None:
        super().__init__(tasks)
        self.client = Client(URL, KEY, transport=Transport(self._answered))
        self.async_client = AsyncClient(URL, KEY, transport=AsyncTransport(self._answer))
        self._runs: dict[str, WholeRun] = {}
        self._reads: Counter[UUID] = Counter()

    async def _answer(self, request: httpx2.Request) -> httpx2.Response:
        ids = []
        for fields in (found := self.note(request)):
            ids.append(uuid4())
            await self.created(ids[-1], fields)
        return self._reply(request, ids, found)

    def _answered(self, request: httpx2.Request) -> httpx2.Response:
        with outside_of_the_loop():
            return asyncio.run(self._answer(request))

    async def created(self, job_id: UUID, fields: dict[str, Any]) -> None:
        """Does what follows from a new job."""
        self._runs[str(job_id)] = WholeRun(run_id=job_id, job_id=job_id, status="queued", task=fields["task"])

    def _reply(self, request: httpx2.Request, ids: list[UUID], jobs: list[dict[str, Any]]) -> httpx2.Response:
        if request.url.path.endswith("/batch"):
            return as_json(201, {"job_ids": ids})
        if ids:
            known = {name: value for name, value in jobs[0].items() if name in ("task", "payload", "key", "name")}
            return as_json(201, Job(job_id=ids[0], status="active", **known))
        run = self._runs.get(request.url.path.removeprefix(RUNS))
        said = f"{type(self).__name__} does not answer {request.method} {request.url.path}; use oncue_app for this."
        if request.method == "GET" and run is not None:
            self._reads[run.run_id] += 1
            if run.final or self._reads[run.run_id] < READS:
                return as_json(200, run)
            said = f"{type(self).__name__} only records run {run.run_id} of {run.task!r}: it never ends, so do not "
            said += "wait for it. oncue_inline runs what is due now, oncue_app everything."
        elif request.method == "GET" and IS_RUN.fullmatch(request.url.path):
            return problem(404, "not_found", "This test has enqueued no run with this id.")
        return refusal(said)


class OncueInline(OncueFake):
    """Runs what handles enqueue at once, in the caller, with its retries. What is for later is only recorded.

    `runs` has each `FinishedRun`, in order. It has the assertions of `OncueFake`, too.
    """

    fixture = "oncue_inline"

    def __init__(self, tasks: SomeTasks) -> None:
        super().__init__(tasks)
        self.runs: list[FinishedRun[Any]] = []

    async def created(self, job_id: UUID, fields: dict[str, Any]) -> None:
        await super().created(job_id, fields)
        task = self.tasks.get(fields["task"])
        if task is None or fields.get("schedule", "now") != "now":
            return
        depth = _depth.get()
        if depth == DEEPEST:
            raise RecursionError(f"task {task.name!r} was enqueued {depth} runs deep: see whether this ever ends")
        within = _depth.set(depth + 1)
        try:
            done = await finished(task, fields)
        finally:
            _depth.reset(within)
        self.runs.append(done)
        result = None if done.stored is None else msgspec.json.decode(done.stored)
        said = None if done.error is None else str(done.error)
        kind = None if done.error is None else type(done.error).__name__
        self._runs[str(job_id)] = msgspec.structs.replace(
            self._runs[str(job_id)], status=done.status, result=result, error_type=kind, error_message=said
        )
