"""The loop under every service: it waits as told, wakes when asked, survives errors, and ends."""

import asyncio
from collections.abc import Callable
from typing import Any

from oncue.domain.errors import StoreUnavailable
from oncue.domain.instants import DAY, MILLISECOND, SECOND, Duration
from oncue.services.loop import AFTER_AN_ERROR, LONGEST_WAIT, OUTAGE_RETRY_DELAY, Loop
from oncue.testing.clock import FakeClock

FOREVER = Duration(1_000 * DAY)


class Scripted:
    """A service that does these things, one a pass, and then stops its loop."""

    name = "scripted"

    def __init__(self, *passes: Callable[[], Duration]) -> None:
        self._passes = list(passes)
        self.done = 0
        self.clock = FakeClock()
        self.began: list[int] = []  # each pass, by the clock
        self.loop = Loop(self, self.clock)

    async def run_once(self) -> Duration:
        self.began.append(self.clock.monotonic())
        act = self._passes[self.done]
        self.done += 1
        if self.done == len(self._passes):
            self.loop.stop()
        return act()


def fails(error: Exception) -> Callable[[], Duration]:
    def act() -> Duration:
        raise error

    return act


async def run(service: Scripted) -> None:
    """Until it has ended, however long that takes by its clock."""
    running = asyncio.create_task(service.loop.run())
    async with asyncio.timeout(60):
        while not running.done():
            for _ in range(10):  # whatever takes no time comes first
                await asyncio.sleep(0)
            if not running.done():
                await service.clock.advance(MILLISECOND)
    await running


async def test_it_comes_back_when_the_service_said() -> None:
    service = Scripted(lambda: Duration(0), lambda: Duration(50 * MILLISECOND), lambda: FOREVER)

    await run(service)

    assert [at - service.began[0] for at in service.began] == [0, 0, 50 * MILLISECOND]


async def test_it_comes_back_after_the_longest_wait_whatever_the_service_said() -> None:
    service = Scripted(lambda: FOREVER, lambda: FOREVER)

    await run(service)

    assert service.began[1] - service.began[0] == LONGEST_WAIT


async def test_loops_without_work_wake_up_at_the_same_instants() -> None:
    late = Scripted(
        lambda: Duration(30 * MILLISECOND), lambda: FOREVER, lambda: Duration(LONGEST_WAIT), lambda: FOREVER
    )

    await run(late)

    assert late.began[1:] == [30 * MILLISECOND, LONGEST_WAIT, 2 * LONGEST_WAIT]


async def test_a_wake_up_ends_the_wait_and_one_during_a_pass_is_not_lost() -> None:
    service = Scripted(lambda: FOREVER, lambda: wake_and(FOREVER), lambda: FOREVER)

    def wake_and(wait: Duration) -> Duration:
        service.loop.wake()
        return wait

    service.clock.call_later(Duration(10 * MILLISECOND), service.loop.wake)
    await run(service)

    assert service.began == [0, 10 * MILLISECOND, 10 * MILLISECOND]


async def test_stopping_does_not_wait_for_the_wait() -> None:
    service = Scripted(lambda: FOREVER, lambda: FOREVER)
    service.clock.call_later(Duration(10 * MILLISECOND), service.loop.stop)

    await run(service)

    assert (service.done, service.clock.monotonic()) == (1, 10 * MILLISECOND)


async def test_an_outage_is_told_once_and_its_end_too(logged: list[Any]) -> None:
    away = fails(StoreUnavailable("gone"))
    service = Scripted(away, away, lambda: Duration(0), lambda: Duration(0))

    await run(service)

    assert [(line["log_level"], line["kind"], line.get("seconds")) for line in logged] == [
        ("warning", "store_away", None),
        ("info", "store_back", 2 * OUTAGE_RETRY_DELAY / SECOND),
    ]


async def test_an_error_ends_one_pass_and_not_the_service(logged: list[Any]) -> None:
    service = Scripted(fails(ZeroDivisionError("a bug")), lambda: Duration(0))

    await run(service)

    assert service.began == [0, AFTER_AN_ERROR]
    assert [(line["log_level"], line["exc_info"]) for line in logged] == [("error", True)]
