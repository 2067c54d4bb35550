"""The whole system in fake time."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from oncue import Context, Tasks, cron, every
from oncue.client import OncueApiError
from oncue.testing.app import OncueApp

seen: list[Any] = []
pool: list[str] = []


@asynccontextmanager
async def resources() -> AsyncIterator[str]:
    pool.append("opened")
    yield "pool"
    pool.append("closed")


tasks = Tasks(lifespan=resources)


@tasks.task
async def hello(ctx: Context[str], name: str) -> str:
    seen.append((name, ctx.state, threading.get_ident()))
    return f"Hello, {name}!"


@tasks.task
async def chain(ctx: Context[str], left: int) -> None:
    seen.append(left)
    if left:
        await chain.enqueue(left=left - 1)


@tasks.task
async def endless(ctx: Context[str]) -> None:
    await endless.enqueue()


@tasks.task
async def ask(ctx: Context[str]) -> str:
    return await hello.run(name="inner")


@tasks.task(max_retries=1, retry={"backoff": "1h", "max_backoff": "1h", "jitter": 0})
def flaky(ctx: Context[str]) -> int:
    if ctx.attempt == 1:
        raise RuntimeError("once")
    return ctx.attempt


@tasks.task(rate="1/1m")
def slow(ctx: Context[str]) -> None:
    seen.append("slow")


@tasks.task(isolation="process")
def apart(ctx: Context[str]) -> int:
    return threading.get_ident()


@pytest.fixture
def app() -> Iterator[OncueApp]:
    seen.clear()
    pool.clear()
    with OncueApp([tasks], "2027-03-26T00:00Z") as app:
        yield app


def test_a_task_with_a_process_of_its_own_runs_in_the_test(app: OncueApp) -> None:
    apart.sync.enqueue()

    assert [run.result for run in app.sync.drain()] == [threading.get_ident()]


def test_large_values_go_to_storage_and_back(app: OncueApp) -> None:
    hello.sync.enqueue(name=(large := "x" * 300_000))

    [run] = app.sync.drain()

    assert app.client.runs.result(run) == f"Hello, {large}!"


async def test_nothing_runs_until_it_is_drained(app: OncueApp) -> None:
    run = await hello.enqueue(name="you")
    assert seen == []

    [ended] = await app.drain()

    assert (ended.run_id, ended.status, ended.result) == (run.run_id, "succeeded", "Hello, you!")
    assert seen == [("you", "pool", threading.get_ident())]
    assert pool == ["opened", "closed"]
    assert await app.drain() == []
    app.assert_ran(hello, times=1)
    app.assert_enqueued(hello, {"name": "you"}, times=1)
    with pytest.raises(AssertionError, match="hello succeeded"):
        app.assert_ran(chain)


async def test_what_runs_enqueue_is_drained_as_well(app: OncueApp) -> None:
    await chain.enqueue(left=3)

    assert len(await app.drain()) == 4
    assert seen == [3, 2, 1, 0]


async def test_a_run_may_wait_for_another(app: OncueApp) -> None:
    await ask.enqueue()

    assert sorted(run.result for run in await app.drain()) == ["Hello, inner!", "Hello, inner!"]


async def test_a_week_over_daylight_saving(app: OncueApp) -> None:
    await hello.schedule(cron("30 2 * * *", "Europe/Berlin"), name="a")

    runs = await app.travel(to="2027-04-02T00:00Z")

    assert [run.scheduled_for.hour for run in runs if run.scheduled_for] == [1, 1, 1, 0, 0, 0, 0]
    assert [run.scheduled_for.day for run in runs if run.scheduled_for] == [26, 27, 28, 29, 30, 31, 1]
    assert f"{app.now:%F %R}" == "2027-04-02 00:00"


async def test_retries_come_at_their_time(app: OncueApp) -> None:
    await flaky.enqueue()

    assert await app.drain() == []
    assert await app.travel(by="59m") == []
    [run] = await app.travel(by="1m")
    assert run.result == 2


async def test_rates_hold(app: OncueApp) -> None:
    await tasks.enqueue_many([slow.bind() for _ in range(3)])

    assert len(await app.drain()) == 1
    assert len(await app.travel(by="2m")) == 2


def test_sync_tests(app: OncueApp) -> None:
    hello.sync.schedule(every("1h"), name="you")

    runs = app.sync.travel(by="3h")

    assert [run.status for run in runs] == ["succeeded"] * len(runs)
    assert len(runs) in (3, 4)
    assert {who for _, _, who in seen} == {threading.get_ident()}


async def test_time_goes_forward_only(app: OncueApp) -> None:
    with pytest.raises(ValueError, match="back"):
        await app.travel(to="2027-03-25T00:00Z")
    with pytest.raises(ValueError, match="either"):
        await app.travel()


def test_handles_are_free_again_after_it() -> None:
    with OncueApp([tasks]) as app:
        assert tasks.clients.override is app

    assert tasks.clients.override is None


def test_declared_schedules_run_once_they_are_applied() -> None:
    shop = Tasks("shop")

    @shop.task(schedule=cron("0 9 * * 1-5", "Europe/Berlin"), payload={"to": "ops"})
    def digest(to: str) -> str:
        return f"sent to {to}"

    digest.using(key="digest-eu").declare(every("12h"), to="eu")
    with OncueApp([shop], now="2027-01-04T00:00Z") as app:
        assert app.sync.travel(by="1d") == []
        app.apply()
        runs = app.sync.travel(by="1d")
        again = digest.sync.run_now()

        assert [(run.job_key, run.result) for run in runs] == [
            ("digest", "sent to ops"), ("digest-eu", "sent to eu"), ("digest-eu", "sent to eu"),
        ]  # fmt: skip
        assert [run.run_id for run in app.sync.drain()] == [again.run_id]


def test_a_task_that_enqueues_itself_for_ever_is_an_error() -> None:
    with OncueApp([tasks], max_runs=5) as app:
        endless.sync.enqueue()

        with pytest.raises(RuntimeError, match=r"more than 5 attempts ended .* does task 'endless' enqueue itself"):
            app.sync.drain()


def test_as_many_runs_as_are_allowed_are_none() -> None:
    with OncueApp([tasks], max_runs=3) as app:
        chain.sync.enqueue(left=2)

        assert len(app.sync.drain()) == 3


def test_to_wait_for_a_run_that_nothing_starts_is_an_error() -> None:
    with OncueApp([tasks]) as app:
        run = hello.sync.enqueue(name="you")
        with pytest.raises(OncueApiError, match=r"nothing runs until drain\(\) or travel\(\)"):
            [run.refresh() for _ in range(20)]
        app.sync.drain()

        assert [run.refresh().status for _ in range(30)] == ["succeeded"] * 30
