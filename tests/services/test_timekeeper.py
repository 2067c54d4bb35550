"""The timekeeper asks the store for its time between two readings of the monotonic count."""

from types import SimpleNamespace
from typing import Any

import pytest

from oncue.domain.errors import StoreUnavailable
from oncue.domain.instants import HOUR, MILLISECOND, SECOND, Duration, Instant
from oncue.services.timekeeper import Timekeeper
from oncue.testing.clock import FakeClock


class Follower(FakeClock):
    def __init__(self) -> None:
        super().__init__()
        self.learnt: list[tuple[int, int, int]] = []
        self.doubted: Duration | None = None

    def follow(self, store_now: Instant, asked_at: Instant, answered_at: Instant) -> Duration | None:
        self.learnt.append((store_now, asked_at, answered_at))
        return self.doubted


def store_that_takes(clock: Follower, length: Duration, says: Instant) -> Any:
    async def now() -> Instant:
        await clock.advance(length)
        return says

    return SimpleNamespace(now=now)


async def test_the_answer_lies_between_two_readings() -> None:
    clock = Follower()
    await clock.advance(Duration(7 * SECOND))

    await Timekeeper(store_that_takes(clock, Duration(30 * MILLISECOND), Instant(5)), clock).run_once()

    assert clock.learnt == [(5, 7 * SECOND, 7 * SECOND + 30 * MILLISECOND)]


async def test_it_asks_thrice_in_quick_succession_and_then_now_and_then() -> None:
    clock = Follower()
    timekeeper = Timekeeper(store_that_takes(clock, Duration(1), Instant(5)), clock)

    waits = [await timekeeper.run_once() for _ in range(5)]

    assert waits == [100 * MILLISECOND] * 2 + [5 * SECOND] * 3


async def test_after_a_slow_answer_it_asks_again_soon() -> None:
    """Catches a clock that stays behind by seconds of latency for as long as the next reading takes to come."""
    clock = Follower()
    slow = Timekeeper(store_that_takes(clock, Duration(SECOND), Instant(5)), clock)

    waits = [await slow.run_once() for _ in range(4)]

    assert waits == [100 * MILLISECOND] * 2 + [2 * SECOND] * 2


async def test_a_step_that_is_not_believed_is_said_loudly_and_once(logged: list[Any]) -> None:
    clock = Follower()
    timekeeper = Timekeeper(store_that_takes(clock, Duration(1), Instant(5)), clock)
    for clock.doubted in (None, HOUR, HOUR, None, HOUR):
        await timekeeper.run_once()

    assert [(line["log_level"], line["by_s"]) for line in logged] == [("error", 3600)] * 2


async def test_a_store_that_is_away_teaches_nothing() -> None:
    clock = Follower()

    async def now() -> Instant:
        raise StoreUnavailable("away")

    with pytest.raises(StoreUnavailable):
        await Timekeeper(SimpleNamespace(now=now), clock).run_once()  # type: ignore[arg-type]
    assert clock.learnt == []
