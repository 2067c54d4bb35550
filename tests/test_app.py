"""The composition root: what runs in our processes goes on."""

import asyncio
import resource
import subprocess
import sys

import pytest

from oncue.clock import SystemClock
from oncue.domain.instants import SECOND, Duration
from oncue.process.parts import looping
from oncue.services.loop import Loop

LIMITS = (
    "import resource; from oncue.process import tuning; tuning.allow_most_files();"
    "print(*resource.getrlimit(resource.RLIMIT_NOFILE))"
)


class Oddly(BaseException):
    pass


class Ends:
    """A service whose first pass ends its loop."""

    name = "ends"

    def __init__(self, error: BaseException) -> None:
        self._error: BaseException | None = error
        self.goes_on = asyncio.Event()

    async def run_once(self) -> Duration:
        error, self._error = self._error, None
        if error is not None:
            raise error
        self.goes_on.set()
        return Duration(SECOND)


@pytest.mark.parametrize("error", [Oddly(), asyncio.CancelledError()], ids=["oddly", "a cancel nobody asked for"])
async def test_a_service_whose_loop_ended_goes_on(error: BaseException) -> None:
    service, clock = Ends(error), SystemClock()
    async with looping(clock, Loop(service, clock)), asyncio.timeout(60):
        await service.goes_on.wait()


def test_a_role_may_open_as_many_files_as_the_system_lets_it() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = min(most, 256)

    said = subprocess.run(
        [sys.executable, "-c", LIMITS],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (few, most)),
        capture_output=True,
        check=True,
    )

    assert said.stdout.split() == [str(most).encode()] * 2
