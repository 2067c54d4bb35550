"""So many requests a second, for everybody but administrators."""

from collections.abc import AsyncIterator

import httpx2
import pytest
from tests.api.conftest import Desk

from oncue.api.application import Application
from oncue.domain.instants import SECOND
from oncue.settings import Settings

RATE = 4


async def limited(desk: Desk, rate: int) -> AsyncIterator[Desk]:
    app = Application(desk.store.engine, desk.store.clock, Settings(rate_limit=rate))
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://oncue") as client:
        yield Desk(desk.store, app, client, desk.keys)


@pytest.fixture
async def slow_desk(desk: Desk) -> AsyncIterator[Desk]:
    async for one in limited(desk, RATE):
        yield one


async def statuses(desk: Desk, times: int, key: str = "ada") -> list[int]:
    return [(await desk.call("GET", "/v1/tasks", key=key)).status_code for _ in range(times)]


def test_it_is_a_thousand_a_second_unless_a_setting_says_otherwise() -> None:
    assert Settings().rate_limit == 1_000


async def test_who_asks_too_often_is_told_when_to_come_back(slow_desk: Desk) -> None:
    assert await statuses(slow_desk, RATE) == [200] * RATE

    answer = await slow_desk.call("GET", "/v1/tasks")

    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "1")
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert f"Rate limit of {RATE} requests per second exceeded" in answer.json()["detail"]
    await slow_desk.store.clock.advance(SECOND)
    assert await statuses(slow_desk, RATE + 1) == [*[200] * RATE, 429]


async def test_the_allowance_comes_back_bit_by_bit_and_a_refusal_costs_nothing(slow_desk: Desk) -> None:
    await statuses(slow_desk, 10 * RATE)

    await slow_desk.store.clock.advance(SECOND // RATE - 1)
    assert await statuses(slow_desk, 2) == [429, 429]
    await slow_desk.store.clock.advance(1)
    assert await statuses(slow_desk, 2) == [200, 429]


async def test_nobody_saves_up_more_than_a_seconds_worth(slow_desk: Desk) -> None:
    await statuses(slow_desk, 1)
    await slow_desk.store.clock.advance(100 * SECOND)

    assert await statuses(slow_desk, RATE + 1) == [*[200] * RATE, 429]


async def test_all_keys_of_a_user_count_together_and_those_of_others_apart(slow_desk: Desk) -> None:
    assert await statuses(slow_desk, RATE, "viewer") == [200] * RATE

    assert await statuses(slow_desk, 1, "ada") == [429]
    assert await statuses(slow_desk, 1, "bob") == [200]


async def test_the_wall_clock_has_no_part_in_it(slow_desk: Desk) -> None:
    await statuses(slow_desk, RATE)

    slow_desk.store.clock.jump(100 * SECOND)

    assert await statuses(slow_desk, 1) == [429]


async def test_an_administrator_asks_as_often_as_needed(slow_desk: Desk) -> None:
    assert await statuses(slow_desk, 5 * RATE, "root") == [200] * (5 * RATE)


async def test_with_a_rate_of_nothing_there_is_no_limit(desk: Desk) -> None:
    async for one in limited(desk, 0):
        assert await statuses(one, 50) == [200] * 50


async def test_what_is_refused_does_nothing(slow_desk: Desk) -> None:
    await statuses(slow_desk, RATE)

    assert (await slow_desk.call("POST", "/v1/jobs", {"task": "mark"})).status_code == 429
    assert await slow_desk.nothing_stored()
