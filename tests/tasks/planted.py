"""Correct uses of tasks, and mistakes that type checkers must report: each line with a comment `wrong`, and no other.

`wrong, pyright` marks what mypy cannot know. Nothing here is executed.
"""

# ruff: noqa: F841

from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, assert_type

from oncue import Context, Tasks


@dataclass
class State:
    pool: list[int]


@asynccontextmanager
async def resources() -> AsyncIterator[State]:
    yield State([])


plain_tasks = Tasks()


@plain_tasks.task
async def hello(name: str = "world", *, times: int = 1) -> str:
    return name * times


@plain_tasks.task("charge", queue="billing", timeout=timedelta(seconds=30), rate="10/1m", concurrency=4)
def charge(ctx: Context, order: int) -> float:
    return order / ctx.attempt


@plain_tasks.task(max_retries=1, no_retry_on=(ValueError,), isolation="process", roles=["admin"])
async def greet(ctx: Context, name: str) -> None: ...


@plain_tasks.task
def unannotated(ctx, order: int) -> int:  # type: ignore[no-untyped-def]
    return order


@plain_tasks.task(tiemout="30s")  # wrong
def misspelt() -> None: ...


@plain_tasks.task(max_retries="3")  # wrong
def ill_typed() -> None: ...


@plain_tasks.task(priority="urgent")  # wrong
def unknown_priority() -> None: ...


async def direct_calls(ctx: Context) -> None:
    assert_type(await hello("you", times=2), str)
    assert_type(await hello(ctx, "you"), str)
    assert_type(charge(7), float)
    assert_type(charge(ctx, order=7), float)
    assert_type(await greet("you"), None)
    coroutine: Coroutine[Any, Any, str] = hello()
    await hello(nmae="you")  # wrong
    await hello(name=7)  # wrong
    charge()  # wrong
    charge(ctx)  # wrong
    charge(order="7")  # wrong
    length: int = charge(7)  # wrong
