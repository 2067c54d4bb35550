"""A store that is away, and one that is only slow: who waits for it, and for how long."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.api.conftest import Desk

from oncue.api.http import store_watchdog
from oncue.api.http.store_watchdog import ANSWER_WITHIN, PERIOD, StoreWatchdog, WatchedCall
from oncue.clock import SystemClock
from oncue.domain.errors import StoreUnavailable
from oncue.domain.instants import SECOND, Duration
from oncue.testing.clock import FakeClock

SHORT = 0.01  # seconds, for what is a period otherwise


@pytest.fixture(autouse=True)
def short_periods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_watchdog, "PERIOD", SHORT)


class Pinged:
    """Stands in for a store: `away` or there, and how often it was asked."""

    def __init__(self, *, away: bool) -> None:
        self.away = away
        self.times = 0
        self.again = asyncio.Event()

    async def __call__(self, within: Duration) -> None:
        self.times += 1
        if self.times > 1:
            self.again.set()
        if self.away:
            raise StoreUnavailable("no answer")


async def waiting(store_watchdog: StoreWatchdog, what: Awaitable[Any]) -> Any:
    with WatchedCall(store_watchdog):
        return await what


def for_ever() -> Awaitable[Any]:
    return asyncio.Event().wait()


def going_away(ping: Pinged) -> Callable[..., Awaitable[Any]]:
    """A verb that is never answered: with it the store goes away."""

    def verb(*_: object, **__: object) -> Awaitable[Any]:
        ping.away = True
        return for_ever()

    return verb


def test_whoever_asks_is_answered_within_two_seconds() -> None:
    longest = 2 * PERIOD + ANSWER_WITHIN / SECOND

    assert longest < 1.8
    assert ANSWER_WITHIN / SECOND < PERIOD


async def test_all_who_wait_for_a_store_that_is_away_are_told() -> None:
    ping = Pinged(away=True)
    store_watchdog = StoreWatchdog(ping, SystemClock())

    answers = await asyncio.gather(*(waiting(store_watchdog, for_ever()) for _ in range(20)), return_exceptions=True)

    assert {type(answer) for answer in answers} == {StoreUnavailable}
    assert ping.times == 1


async def test_nobody_is_told_it_is_away_while_we_were_too_busy_to_hear_it() -> None:
    clock, asked = FakeClock(), 0
    answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def busy(_: Duration) -> None:
        """The first time the answer is missed, because for a second nothing was heard at all."""
        nonlocal asked
        asked += 1
        if asked == 1:
            await clock.advance(SECOND)
            raise StoreUnavailable("no answer")
        answer.set_result("here")

    assert await waiting(StoreWatchdog(busy, clock), answer) == "here"
    assert asked == 2


async def test_who_waits_for_a_slow_store_waits_on() -> None:
    ping, answer = Pinged(away=False), asyncio.get_running_loop().create_future()
    asked = asyncio.create_task(waiting(StoreWatchdog(ping, SystemClock()), answer))
    await ping.again.wait()

    answer.set_result("late")

    assert await asked == "late"


async def test_a_store_that_goes_away_later_is_noticed() -> None:
    ping = Pinged(away=False)
    asked = asyncio.create_task(waiting(StoreWatchdog(ping, SystemClock()), for_ever()))
    async with asyncio.timeout(60):
        await ping.again.wait()

    ping.away = True

    with pytest.raises(StoreUnavailable):
        async with asyncio.timeout(60):
            await asked


async def test_nobody_waits_and_nothing_is_asked() -> None:
    ping, loop = Pinged(away=True), asyncio.get_running_loop()
    store_watchdog = StoreWatchdog(ping, SystemClock())
    for _ in range(3):
        assert await waiting(store_watchdog, loop.run_in_executor(None, lambda: "soon")) == "soon"
    later = asyncio.Event()
    loop.call_later(5 * SHORT, later.set)
    await later.wait()

    assert ping.times == 0
    assert not store_watchdog._ticking


async def test_who_is_cancelled_by_others_is_cancelled() -> None:
    asked = asyncio.create_task(waiting(StoreWatchdog(Pinged(away=False), SystemClock()), for_ever()))
    await asyncio.sleep(0)

    asked.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asked


async def test_who_was_told_goes_on_as_if_nothing_had_been_cancelled() -> None:
    async def twice() -> str:
        with pytest.raises(StoreUnavailable):
            await waiting(store_watchdog, for_ever())
        await asyncio.sleep(0)
        return "went on"

    store_watchdog = StoreWatchdog(Pinged(away=True), SystemClock())
    task = asyncio.create_task(twice())

    assert await task == "went on"
    assert task.cancelling() == 0


async def test_what_comes_while_it_is_asked_is_judged_by_the_next_answer() -> None:
    asked, answer = asyncio.Event(), asyncio.Event()

    async def ping(within: Duration) -> None:
        asked.set()
        await answer.wait()
        raise StoreUnavailable("no answer")

    store_watchdog = StoreWatchdog(ping, SystemClock())
    first = asyncio.create_task(waiting(store_watchdog, for_ever()))
    await asked.wait()
    value = asyncio.get_running_loop().create_future()
    second = asyncio.create_task(waiting(store_watchdog, value))
    await asyncio.sleep(0)
    answer.set()
    with pytest.raises(StoreUnavailable):
        await first
    value.set_result("in time")

    assert await second == "in time"


# -------------------------------------------------------------------------------------------------------- over the API

HANGING: dict[str, Callable[[Desk], tuple[object, str, Callable[[], Awaitable[Any]]]]] = {
    "who asks": lambda desk: (desk.store.accounts, "key", lambda: desk.call("GET", "/v1/tasks")),
    "a list": lambda desk: (desk.store.lists, "jobs", lambda: desk.call("GET", "/v1/jobs")),
    "a job": lambda desk: (desk.store.jobs, "create", lambda: desk.call("POST", "/v1/jobs", {"task": "mark"})),
    "many jobs": lambda desk: (
        *(desk.store.jobs, "create"),
        lambda: desk.call("POST", "/v1/jobs/batch", {"jobs": [{"task": "mark"}]}),
    ),
    "a stream": lambda desk: (desk.store.lists, "recent", lambda: desk.call("GET", "/v1/events")),
}


@pytest.mark.parametrize("what", HANGING)
async def test_whatever_hangs_is_503_once_the_store_does_not_answer(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    part, verb, ask = HANGING[what](desk)
    ping = Pinged(away=False)
    monkeypatch.setattr(desk.app.api.watchdog, "_ping", ping)
    monkeypatch.setattr(part, verb, going_away(ping))

    async with asyncio.timeout(60):
        answer = await ask()

    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "1"
    await desk.app.api.watching.close()


async def test_after_a_commit_that_hung_jobs_are_stored_again(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    ping = Pinged(away=False)
    monkeypatch.setattr(desk.app.api.watchdog, "_ping", ping)
    with monkeypatch.context() as hanging:
        hanging.setattr(desk.store.jobs, "create", going_away(ping))
        lost = await desk.call("POST", "/v1/jobs", {"task": "mark"})
    ping.away = False

    async with asyncio.timeout(60):
        made = await desk.call("POST", "/v1/jobs", {"task": "mark"})

    assert (lost.status_code, made.status_code) == (503, 201)
