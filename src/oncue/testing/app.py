"""The whole system for a test, with or without an event loop: `with OncueApp([tasks]) as app`."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future
from datetime import datetime
from threading import Thread
from typing import Any, Self, TypeVar, cast

import httpx2
import msgspec

from oncue.client import AsyncClient, AsyncRun, Client, Run
from oncue.domain.instants import Instant, moment
from oncue.shapes.jobs import JobFields
from oncue.shapes.runs import WholeRun
from oncue.tasks import Task
from oncue.tasks.lifespan import lifespans
from oncue.testing.caller import Caller
from oncue.testing.calls import Calls, SomeTasks
from oncue.testing.clock import SOME_DAY, FakeClock
from oncue.testing.system import System
from oncue.testing.times import Span, Time, to_duration, to_instant
from oncue.testing.transport import RUNS, URL, AsyncTransport, Transport, refusal

T = TypeVar("T")
MAX_RUNS = 10_000
READS = 20  # of a run while nothing runs: whoever asks more often waits for it


class OncueApp(Calls):
    """The real API, scheduler and worker on a temporary file, in fake time. Nothing runs until `drain` or `travel`.

    Handles of these tasks use it while it is open, in every thread and event loop. Tasks run in the thread and loop
    that call `drain` or `travel`; the lifespan of the tasks is entered for the time of each such call. `client` and
    `async_client` make all other calls. It has the assertions of `OncueFake`, too. `max_runs` is the most that may end
    at one instant: beyond it `drain` and `travel` raise RuntimeError, as a task that enqueues itself would never end.
    """

    fixture = "oncue_app"

    def __init__(self, tasks: SomeTasks, now: Time = SOME_DAY, *, max_runs: int = MAX_RUNS) -> None:
        super().__init__(tasks)
        self._clock = FakeClock(now)
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="oncue testing", daemon=True)
        self._travels = 0
        self._reads: Counter[str] = Counter()
        self._system = System(self._clock, self.tasks, max_runs)

    def __enter__(self) -> Self:
        self._thread.start()
        self.inside(self._system.open()).result()
        key = self._system.key
        self.client = Client(URL, key, transport=Transport(self.answered))
        self.async_client = AsyncClient(URL, key, transport=AsyncTransport(self.answer))
        return super().__enter__()

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self.inside(self._close()).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close(self) -> None:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await self._system.close()

    def inside(self, call: Coroutine[Any, Any, T]) -> Future[T]:
        """Run this in the loop of the system."""
        return asyncio.run_coroutine_threadsafe(call, self._loop)

    async def answer(self, request: httpx2.Request) -> httpx2.Response:
        """Answer a request of any event loop."""
        self.note(request)
        return self._unless_in_vain(request, await asyncio.wrap_future(self.inside(self._system.answer(request))))

    def answered(self, request: httpx2.Request) -> httpx2.Response:
        """Answer a request of any thread."""
        self.note(request)
        return self._unless_in_vain(request, self.inside(self._system.answer(request)).result())

    def _unless_in_vain(self, request: httpx2.Request, answered: httpx2.Response) -> httpx2.Response:
        """Refuse those who ask again and again for a run that cannot start: they wait for it."""
        path = request.url.path
        if self._travels or request.method != "GET" or not path.startswith(RUNS) or path.count("/") != RUNS.count("/"):
            return answered
        if not answered.is_success or msgspec.json.decode(answered.content, type=WholeRun).final:
            return answered
        self._reads[path] += 1
        if self._reads[path] < READS:
            return answered
        return refusal(
            "nothing runs until drain() or travel(), so do not wait for a run before; oncue_inline runs at once"
        )

    @property
    def now(self) -> datetime:
        """The time in the system, in UTC."""
        return moment(self._clock.now())

    def apply(self) -> None:
        """Create the jobs of the schedules that the tasks declare, as `oncue up` does when it starts."""
        for one in self.tasks.declared():
            self.client.jobs.apply(one.name, cast(tuple[JobFields, ...], one.jobs), prune=one.named)

    @property
    def sync(self) -> SyncApp:
        """`drain` and `travel` for tests without an event loop."""
        return SyncApp(self)

    async def drain(self) -> Sequence[AsyncRun[Any]]:
        """Run all that is due, also what that enqueues. Returns the runs that have ended, in order."""
        return await self._travel(self._clock.now())

    async def travel(self, to: Time | None = None, *, by: Span | None = None) -> Sequence[AsyncRun[Any]]:
        """Move the time to an instant, or by a duration, and run all that is due on the way, each at its instant.

        Returns the runs that have ended, in order. ValueError: the instant is in the past, or there is none.
        """
        now = self._clock.now()
        if (to is None) == (by is None):
            raise ValueError("pass either the instant, travel(to=…), or the duration, travel(by=…)")
        until = to_instant(to, now) if to is not None else Instant(now + to_duration(by or 0))
        if until < now:
            raise ValueError(f"cannot travel back: it is {self.now:%Y-%m-%dT%H:%M:%SZ} already")
        return await self._travel(until)

    async def _travel(self, until: Instant) -> Sequence[AsyncRun[Any]]:
        self._reads.clear()
        self._travels += 1
        try:
            async with lifespans(self.tasks):
                ended = await asyncio.wrap_future(self.inside(self._system.travel(until, Caller())))
        finally:
            self._travels -= 1
        return [await self.async_client.runs.get(run_id) for run_id in ended]

    def assert_ran(self, task: Task[..., Any] | str, *, times: int | None = None, status: str = "succeeded") -> None:
        """Check that runs of this task have ended so: `assert_ran(digest, times=7)`.

        AssertionError: no run has, or not exactly `times` runs have.
        """
        name = task if isinstance(task, str) else task.name
        ended = [run for run in self.client.runs.list() if run.final]
        found = [run for run in ended if (run.task, run.status) == (name, status)]
        if (len(found) != times) if times is not None else not found:
            many = "at least one run" if times is None else f"{times} runs"
            told = "".join(f"\n  {run.task} {run.status} {run.scheduled_for}" for run in ended) or " none"
            raise AssertionError(f"expected {many} of {name!r} with status {status}, found {len(found)}. Runs:{told}")


class SyncApp:
    """`drain` and `travel` for tests without an event loop. Tasks run in the thread of the test."""

    def __init__(self, app: OncueApp) -> None:
        self._app = app

    def drain(self) -> Sequence[Run[Any]]:
        """Run all that is due, also what that enqueues. Returns the runs that have ended, in order."""
        return self._seen(asyncio.run(self._app.drain()))

    def travel(self, to: Time | None = None, *, by: Span | None = None) -> Sequence[Run[Any]]:
        """Move the time, and run all that is due on the way. Returns the runs that have ended, in order."""
        return self._seen(asyncio.run(self._app.travel(to, by=by)))

    def _seen(self, runs: Sequence[AsyncRun[Any]]) -> Sequence[Run[Any]]:
        return [self._app.client.runs.get(run.run_id) for run in runs]
