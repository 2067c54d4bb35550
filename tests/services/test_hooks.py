"""Hooks and middleware in a worker: told after the outcome, which they cannot change. A worker waits for them."""

import asyncio
from typing import Any

import pytest
from tests.services.worker_loops import Stage, StagedCrew, crew_on, work

from oncue import Context
from oncue.domain.errors import NoRetry
from oncue.domain.instants import SECOND, Duration, moment
from oncue.domain.policy import Retry
from oncue.domain.run import State
from oncue.services.attempts import Stop
from oncue.tasks import Failure
from oncue.tasks.hooks import Call
from oncue.testing.logs import capture_logs
from oncue_conformance.store import Store


class Told(Stage):
    """Its hooks write down what they are told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[str, str, Any]] = []
        for event in ("on_failure", "on_success", "on_dead"):
            getattr(self.tasks, event)(self.noting(event))

    def noting(self, event: str) -> Any:
        async def hook(ctx: Context, value: Any) -> None:
            self.told.append((event, ctx.task, value))

        return hook

    def of(self, event: str) -> list[Any]:
        return [value for name, _, value in self.told if name == event]


async def told(crew: StagedCrew) -> None:
    """Until no hook is active."""
    async with asyncio.timeout(60):
        while len(crew.attempts.hooks):
            await asyncio.sleep(0)


async def test_success_is_told_with_the_result(store: Store) -> None:
    stage = Told()
    await store.one_shot(task="noop")
    crew = await crew_on(store, stage)
    await work(crew)
    await told(crew)

    assert stage.told == [("on_success", "noop", 1)]


async def test_a_failure_is_told_with_the_exception_and_when_it_is_retried(store: Store) -> None:
    stage = Told()
    await store.one_shot(task="fail", retry=Retry(jitter=0))
    crew = await crew_on(store, stage)
    await work(crew)
    await told(crew)

    [failure] = stage.of("on_failure")
    assert isinstance(failure, Failure)
    assert isinstance(failure.error, RuntimeError)
    assert (str(failure.error), failure.attempt) == ("boom 1", 1)
    assert failure.retry_at == moment(store.now + 2 * SECOND)  # type: ignore[arg-type]
    assert stage.of("on_dead") == stage.of("on_success") == []


async def test_a_dead_run_is_told_as_both(store: Store) -> None:
    stage = Told()
    await store.one_shot(task="fail", payload=b'{"how":"never again"}')
    crew = await crew_on(store, stage)
    await work(crew)
    await told(crew)

    [failure], [dead] = stage.of("on_failure"), stage.of("on_dead")
    assert failure == dead
    assert (type(dead.error), dead.retry_at) == (NoRetry, None)


async def test_a_timeout_is_a_failure_and_a_cancel_is_none(store: Store) -> None:
    stage = Told()
    slow, cancelled = await store.one_shots(2, -SECOND, task="wait")
    crew = await crew_on(store, stage)
    await work(crew)
    crew.attempts.stop(slow, Stop.TIMED_OUT)
    crew.attempts.stop(cancelled, Stop.CANCELLED)
    await crew.rest()
    await told(crew)

    assert [event for event, _, _ in stage.told] == ["on_failure"]
    assert "exceeded its timeout" in str(stage.of("on_failure")[0].error)


async def test_hooks_of_a_task_are_for_that_task_after_those_of_its_set(store: Store) -> None:
    stage = Told()
    task = stage.tasks.get("noop")
    assert task is not None
    task.on_success(stage.noting("own"))
    await store.one_shot(task="noop")
    await store.one_shot(task="talk", payload=b'{"words":0}', retry=Retry(jitter=0))
    crew = await crew_on(store, stage)
    await work(crew)
    await told(crew)

    assert [event for event, name, _ in stage.told if name == "noop"] == ["on_success", "own"]
    assert [event for event, name, _ in stage.told if name == "talk"] == ["on_failure"]


async def test_a_plain_function_runs_in_a_thread(store: Store) -> None:
    seen = list[Any]()
    stage = Stage()
    stage.tasks.on_success(lambda ctx, result: seen.append(result))
    await store.one_shot(task="noop")
    crew = await crew_on(store, stage)
    await work(crew)
    await told(crew)

    assert seen == [1]


async def test_one_that_fails_changes_nothing_and_is_logged(store: Store) -> None:
    stage = Told()

    @stage.tasks.on_success
    async def failing(ctx: Context, result: Any) -> None:
        ctx.log.info("from the hook")
        raise ValueError("not now")

    run_id = await store.one_shot(task="noop")
    crew = await crew_on(store, stage)
    with capture_logs() as logs:
        await work(crew)
        await told(crew)

    assert (await store.run(run_id)).state is State.SUCCEEDED
    assert [line["kind"] for line in logs if line["kind"].startswith("hook")] == ["hook_failed"]
    assert stage.of("on_success") == [1]


async def test_one_that_takes_long_is_stopped_and_the_worker_waits_no_longer(store: Store) -> None:
    stage = Stage()
    stopped = asyncio.Event()

    @stage.tasks.on_success
    async def endless(ctx: Context, result: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    run_id = await store.one_shot(task="noop")
    crew = await crew_on(store, stage)
    await work(crew)
    assert (await store.run(run_id)).state is State.SUCCEEDED
    assert crew.busy
    await store.clock.advance(Duration(10 * SECOND - 1))
    assert not stopped.is_set()
    await store.clock.advance(Duration(1))
    await told(crew)

    assert stopped.is_set()
    assert not crew.busy


async def test_middleware_is_around_the_attempts_of_a_worker(store: Store) -> None:
    stage = Stage()

    @stage.tasks.middleware
    async def doubling(ctx: Context, call: Call) -> Any:
        return [await call()] * 2

    run_id = await store.one_shot(task="noop")
    crew = await crew_on(store, stage)
    await work(crew)

    assert (await store.run(run_id)).result == b"[1,1]"


@pytest.mark.parametrize("how", [Stop.TIMED_OUT, Stop.CANCELLED])
async def test_middleware_that_swallows_a_stop_changes_no_outcome(store: Store, how: Stop) -> None:
    stage = Stage()

    @stage.tasks.middleware
    async def swallowing(ctx: Context, call: Call) -> Any:
        try:
            return await call()
        except asyncio.CancelledError:
            return "fine"

    run_id = await store.one_shot(Duration(-SECOND), task="wait")
    crew = await crew_on(store, stage)
    await work(crew)
    crew.attempts.stop(run_id, how)
    await crew.rest()
    await work(crew)

    assert (await store.run(run_id)).state is (State.WAITING if how is Stop.TIMED_OUT else State.CANCELLED)
