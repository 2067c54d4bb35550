"""Run one task to its end, without a server: `run(charge, order=7)`. Retries are obeyed, and never slept for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Generic
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from oncue.clock import SystemClock
from oncue.context import RunInfo
from oncue.domain import attempt
from oncue.domain.definition import define
from oncue.domain.ids import SCHEDULE, ClassId, JobId, RunId, UserNumber, WorkerId
from oncue.domain.instants import Instant
from oncue.domain.job import Spec, encode_spec
from oncue.domain.plain_text import message_of
from oncue.domain.run import Claimed, Settlement, State, Trigger
from oncue.executors.calling import as_failure, failure_of
from oncue.services.hook_calls import HookCalls
from oncue.tasks import Task, Tasks
from oncue.tasks.lifespan import lifespans
from oncue.tasks.typevars import P, R
from oncue.testing.clock import FakeClock
from oncue.testing.fake_context import Progress, Recorded
from oncue.testing.here import RecordedWork, execute, recorded_output

LUCK = 0.5  # of the jitter of retries: every test sees the same delays
WORKER = WorkerId(uuid4())


class FinishedAttempt(msgspec.Struct, frozen=True):
    """One attempt. `outcome` is "succeeded" or "failed", `error` what was raised."""

    number: int
    outcome: str
    error: BaseException | None = None


class FinishedRun(msgspec.Struct, Generic[R], frozen=True):
    """A run that has ended. `status` is "succeeded" or "dead"."""

    task: Task[..., R]
    status: str
    attempts: list[FinishedAttempt]
    logs: list[str]
    """The lines that were printed and logged, by all attempts."""
    progress: list[Progress]
    """The progress that was reported, in order: (done, total)."""
    checkpoint: Any
    """The last checkpoint that was saved."""
    stored: bytes | None = None
    """The result as JSON."""

    @property
    def error(self) -> BaseException | None:
        """What the last attempt raised; None: the run succeeded."""
        return self.attempts[-1].error

    @property
    def result(self) -> R:
        """The result, after the way through JSON. Raises what the task raised if the run is dead."""
        if self.error is not None:
            raise self.error
        return self.task.returned(None if self.stored is None else msgspec.json.decode(self.stored))


def run(task: Task[P, R], /, *args: P.args, **kwargs: P.kwargs) -> FinishedRun[R]:
    """Run a task to its end, as a worker would: `run(charge, order=7).result`.

    The arguments are checked against the signature and go through JSON. Retries are obeyed (`max_retries`, `NoRetry`,
    `no_retry_on`, `RetryAfter`), without waiting for them; lifespan, middleware and hooks apply; timeouts do not.
    TypeError, Invalid: the arguments do not fit the signature.
    """
    return asyncio.run(arun(task, *args, **kwargs))


async def arun(task: Task[P, R], /, *args: P.args, **kwargs: P.kwargs) -> FinishedRun[R]:
    """`run` for async tests: `(await arun(charge, order=7)).result`."""
    return await finished(task, task.job(args, kwargs))


async def finished(task: Task[..., R], fields: dict[str, Any]) -> FinishedRun[R]:
    """Run the job with these fields once, to its end."""
    async with lifespans([task] if task.state is None else []):  # else it is entered around this call
        with recorded_output():
            return await _SingleRun(task, fields).to_its_end()


@contextmanager
def fake_state(tasks: Tasks[Any] | Task[..., Any], state: object) -> Iterator[None]:
    """Give tasks this state in place of what their lifespan yields: `with fake_state(tasks, State(pool=FakePool())):`.

    The lifespan is not entered during the block.
    """
    one = next(iter(tasks), None) if isinstance(tasks, Tasks) else tasks
    if one is None:
        raise ValueError("there are no tasks in this set; import the module that declares them")
    shared = one.shared

    @asynccontextmanager
    async def yielding() -> Any:
        yield state

    before, shared.lifespan = shared.lifespan, yielding
    try:
        yield
    finally:
        shared.lifespan = before


class _SingleRun(Generic[R]):
    def __init__(self, task: Task[..., R], fields: dict[str, Any]) -> None:
        self._task = task
        self._clock = FakeClock(SystemClock().now())
        self._spec, payload = define(fields, task.defaults, self._clock.now())
        self._claimed = _claimed(self._spec, payload, self._clock.now())
        hooked = Tasks()
        hooked.include([task])
        self._hooks = HookCalls(self._clock, hooked)
        self._reports: list[Recorded] = []
        self._attempts: list[FinishedAttempt] = []

    async def to_its_end(self) -> FinishedRun[R]:
        while (end := await self._attempt()).state is State.WAITING:
            assert end.due is not None
            self._clock.jump(max(0, end.due - self._clock.now()))
            self._claimed = replace(
                self._claimed,
                failures=end.failures,
                attempts=end.attempts,
                checkpoint=self._saved(),
                due=end.due,
                token=self._claimed.token + 1,
                claimed_at=self._clock.now(),
            )
        reports = self._reports
        return FinishedRun(
            self._task,
            end.state.name.lower(),
            self._attempts,
            [line for one in reports for line in one.logs],
            [progress for one in reports for progress in one.reported],
            next((one.saved[-1] for one in reversed(reports) if one.saved), None),
            end.result,
        )

    async def _attempt(self) -> Settlement:
        claimed, spec = self._claimed, self._spec
        reports, error = Recorded(), None
        self._reports.append(reports)
        ids = claimed.run_id, claimed.job_id, spec.task
        info = RunInfo(*ids, claimed.attempt, claimed.wanted, claimed.checkpoint, job_name=spec.name)
        try:
            result = await execute(RecordedWork(info, self._task, claimed.payload, reports, spec.timeout))
            end = attempt.succeeded(claimed, claimed.claimed_at, self._clock.now(), result)
        except KeyboardInterrupt:
            raise
        except Exception as raised:
            failed = as_failure(raised)
            error = failed if failed.error is None else failed.error
            failure = failure_of(failed, message_of(failed, attempt.LONGEST_ERROR))
            now = self._clock.now()
            end = attempt.failed(claimed, spec, WORKER, claimed.claimed_at, now, failure, LUCK)
        self._attempts.append(FinishedAttempt(claimed.attempt, "failed" if error else "succeeded", error))
        self._hooks.tell(self._task, info, end, error)
        await self._hooks.wait()
        return end

    def _saved(self) -> bytes | None:
        saved = self._reports[-1].saved
        return msgspec.json.encode(saved[-1]) if saved else self._claimed.checkpoint


def _claimed(spec: Spec, payload: bytes | None, now: Instant) -> Claimed:
    run_id = uuid4()
    return Claimed(
        run_id=RunId(run_id),
        token=1,
        job_id=JobId(run_id),
        uid=UserNumber(1),
        class_id=ClassId(1),
        due=now,
        wanted=now,
        nominal=None,
        origin=SCHEDULE,
        trigger=Trigger.SCHEDULE,
        job_version=1,
        failures=0,
        losses=0,
        lane=None,
        gate=None,
        attempts=None,
        checkpoint=None,
        spec=encode_spec(spec),
        payload=payload,
        inline=True,
        claimed_at=now,
    )
