"""Correct uses of tasks, and mistakes that type checkers must report: each line with a comment `wrong`, and no other.

`wrong, pyright` marks what mypy cannot know. Nothing here is executed.
"""

# ruff: noqa: F841

from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

from oncue import Context, Tasks, cron, every
from oncue.client import AsyncClient, AsyncRun, Run
from oncue.tasks import Call, Failure


@dataclass
class Receipt:
    order: int


@dataclass
class State:
    pool: list[int]


@asynccontextmanager
async def resources() -> AsyncIterator[State]:
    yield State([])


plain_tasks = Tasks()
tasks = Tasks("shop", lifespan=resources)


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


@tasks.task
async def stateful(ctx: Context[State], order: int) -> Receipt:
    assert_type(ctx.state, State)
    return Receipt(order)


@tasks.middleware
async def timed(ctx: Context[State], call: Call) -> Any:
    return await call()


@tasks.on_failure
async def report(ctx: Context[State], failure: Failure) -> None: ...


@tasks.task(schedule=cron("0 9 * * 1-5", "Europe/Berlin"), overlap="skip", payload={"to": "ops@example.org"})
async def digest(ctx: Context[State], to: str) -> int:
    return 1


digest_eu = digest.using(key="digest-eu").declare("0 7 * * *", to="eu@example.org")
digest.using(key="digest-uk").declare(every(timedelta(hours=1)), "uk@example.org")
digest.using(key="b").declare(every("1h"))  # wrong
digest.using(key="c").declare(every("1h"), ot="eu@example.org")  # wrong
digest.using(key="d").declare(7, to="eu@example.org")  # wrong


@plain_tasks.task(schedule=7)  # wrong
def ill_scheduled() -> None: ...


@plain_tasks.task(schedule=every("1h"), payload="to")  # wrong
def ill_given(to: str) -> None: ...


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


async def handles() -> None:
    assert_type(await hello.enqueue(name="you"), AsyncRun[str])
    assert_type(await stateful.run(7), Receipt)
    assert_type(await digest_eu.run_now(), AsyncRun[int])
    assert_type((await (await charge.enqueue_in("10m", order=7)).wait()).result, float)
    assert_type(hello.sync.enqueue("you"), Run[str])
    assert_type(charge.sync.run(7), float)
    await greet.using(queue="mail", key="eu", wait_timeout="5m").schedule(every(timedelta(hours=1)), name="you")
    await hello.enqueue_at(datetime(2027, 1, 31, 9, tzinfo=UTC), times=2)
    await tasks.enqueue_many([hello.bind("you"), stateful.bind(order=7)])
    await charge.using(client=AsyncClient()).run_now()
    await hello.enqueue(nmae="you")  # wrong
    await hello.enqueue(7)  # wrong
    await charge.enqueue()  # wrong
    await charge.enqueue_in(10, order=7)  # wrong
    await charge.enqueue_in("10m")  # wrong
    await charge.using(qeue="mail").enqueue(7)  # wrong
    await charge.using(max_retries="3").enqueue(7)  # wrong
    charge.bind(order="7")  # wrong
    hello.sync.enqueue(times="2")  # wrong
    await stateful.schedule(cron("0 9 * * *", "Europe/Berlin"))  # wrong
    number: int = await hello.run()  # wrong
    await unannotated.enqueue(order="7")  # wrong, pyright
