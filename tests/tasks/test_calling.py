"""A task is called like its function: with a context, or without one. It pickles by name."""

import asyncio
import logging
import pickle
from typing import Any
from uuid import UUID

import pytest
from tests.executors.working import Remembered

from oncue import Context, Tasks
from oncue.context import RunInfo, current
from oncue.domain.instants import Instant

tasks = Tasks()


@tasks.task
def plain(ctx: Context, x: int, y: int = 0) -> tuple[str, int, int]:
    return ctx.task, x, y


@tasks.task
async def asynchronous(ctx: Context, x: int) -> tuple[int, int]:
    await asyncio.sleep(0)
    return ctx.attempt, x


@tasks.task
def without(x: int = 1) -> int:
    return x


@tasks.task
def talking(ctx: Context) -> bool:
    ctx.log.info("a line")
    ctx.progress(1, 2)
    assert ctx.checkpoint() is None
    ctx.save_checkpoint({"at": 1})
    return ctx.cancelled


def context(attempt: int = 3, reports: Any = None) -> Context:
    return Context(RunInfo(UUID(int=1), UUID(int=2), "given", attempt, Instant(0)), reports or Remembered())


def test_with_a_context_it_is_passed_on() -> None:
    assert plain(context(), 1) == ("given", 1, 0)
    assert asyncio.run(asynchronous(context(), x=2)) == (3, 2)


def test_without_one_a_local_one_is_made() -> None:
    assert plain(1, y=2) == ("plain", 1, 2)
    assert asyncio.run(asynchronous(x=2)) == (1, 2)


def test_a_function_that_takes_none_gets_none() -> None:
    assert without() == 1
    assert without(2) == 2
    assert without(context(), x=3) == 3


def test_the_function_itself_is_there() -> None:
    assert plain.function(context(), 1) == ("given", 1, 0)
    assert without.function(4) == 4


def test_a_local_context_logs_to_standard_logging(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        assert talking() is False

    assert [(record.name, record.message) for record in caplog.records] == [("oncue.task", "a line")]


def test_two_local_contexts_have_ids_of_their_own() -> None:
    seen = list[UUID]()

    @Tasks().task
    def look(ctx: Context) -> None:
        seen.append(ctx.run_id)

    look()
    look()
    assert len(set(seen)) == 2


def test_within_a_run_the_log_and_the_stop_signal_are_those_of_the_run() -> None:
    around = Remembered()
    around.cancelled = True
    token = current.set(around)
    try:
        assert talking() is True
        local = current.get()
    finally:
        current.reset(token)

    assert local is around
    assert (around.told, around.saved) == ([], [])


def test_it_pickles_by_name() -> None:
    assert pickle.loads(pickle.dumps(plain)) is plain
