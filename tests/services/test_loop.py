"""The loop under every service: it waits as told, wakes when asked, survives errors, and ends."""

import asyncio
from collections.abc import Callable
from typing import Any

from oncue.domain.errors import StoreUnavailable
from oncue.domain.instants import DAY, MILLISECOND, Duration
from oncue.services.loop import Loop

FOREVER = Duration(1_000 * DAY)


class Scripted:
    """A service that does these things, one a pass, and then stops its loop."""

    name = "scripted"

    def __init__(self, *passes: Callable[[], Duration]) -> None:
        self._passes = list(passes)
        self.done = 0
        self.loop = Loop(self)

    async def run_once(self) -> Duration:
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
    async with asyncio.timeout(10):
        await service.loop.run()


async def test_it_comes_back_when_the_service_said() -> None:
    service = Scripted(lambda: Duration(0), lambda: MILLISECOND, lambda: FOREVER)

    await run(service)

    assert service.done == 3


async def test_a_wake_up_ends_the_wait_and_one_during_a_pass_is_not_lost() -> None:
    service = Scripted(lambda: FOREVER, lambda: wake_and(FOREVER), lambda: FOREVER)

    def wake_and(wait: Duration) -> Duration:
        service.loop.wake()
        return wait

    asyncio.get_running_loop().call_later(0.01, service.loop.wake)
    await run(service)

    assert service.done == 3


async def test_stopping_does_not_wait_for_the_wait() -> None:
    service = Scripted(lambda: FOREVER, lambda: FOREVER)
    asyncio.get_running_loop().call_later(0.01, service.loop.stop)

    await run(service)

    assert service.done == 1


async def test_an_outage_is_told_once_and_its_end_too(logged: list[Any]) -> None:
    away = fails(StoreUnavailable("gone"))
    service = Scripted(away, away, lambda: Duration(0), lambda: Duration(0))

    await run(service)

    assert [line["log_level"] for line in logged] == ["warning", "info"]


async def test_an_error_ends_one_pass_and_not_the_service(logged: list[Any], monkeypatch: Any) -> None:
    monkeypatch.setattr("oncue.services.loop.AFTER_AN_ERROR", MILLISECOND)
    service = Scripted(fails(ZeroDivisionError("a bug")), lambda: Duration(0))

    await run(service)

    assert service.done == 2
    assert [(line["log_level"], line["exc_info"]) for line in logged] == [("error", True)]
