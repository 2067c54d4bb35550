"""What must go on goes on, or the process ends: never is it there and does nothing."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable

import pytest

from oncue import restarting
from oncue.domain.instants import MILLISECOND, MINUTE, SECOND, Duration
from oncue.restarting import GAVE_UP, MOST_ENDS, Supervised
from oncue.testing.clock import FakeClock
from oncue.testing.logs import capture_logs


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restarting, "PAUSE", Duration(MILLISECOND))


class Oddly(BaseException):
    pass


def raises(error: BaseException) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


class Ending:
    """Ends as it is told to, the first so many times; then it goes on."""

    def __init__(self, act: Callable[[], None], times: int) -> None:
        self._act = act
        self._times = times
        self.begun = 0
        self.goes_on = asyncio.Event()
        self.gave_up = asyncio.Event()

    async def run(self) -> None:
        self.begun += 1
        if self.begun <= self._times:
            self._act()
            return
        self.goes_on.set()
        await asyncio.Event().wait()


@pytest.mark.parametrize(
    "act",
    [raises(ValueError("wrong")), raises(Oddly()), raises(asyncio.CancelledError()), lambda: None],
    ids=["an error", "one that is no error", "a cancel that nobody asked for", "by itself"],
)
async def test_however_it_ends_it_is_begun_again_and_that_is_told(act: Callable[[], None]) -> None:
    ending = Ending(act, times=2)
    with capture_logs() as lines:
        it = Supervised("it", ending.run, FakeClock(), give_up=ending.gave_up.set)
        async with asyncio.timeout(60):
            await ending.goes_on.wait()
        await it.stop()

    assert [(line["service"], line["ends"]) for line in lines] == [("it", 1), ("it", 2)]
    assert not ending.gave_up.is_set()


async def test_a_task_that_somebody_cancels_is_begun_again() -> None:
    ending = Ending(lambda: None, times=0)
    it = Supervised("it", ending.run, FakeClock(), give_up=ending.gave_up.set)
    async with asyncio.timeout(60):
        await ending.goes_on.wait()
        ending.goes_on.clear()
        [task] = [task for task in asyncio.all_tasks() if task.get_name() == "it"]
        task.cancel()
        await ending.goes_on.wait()
    await it.stop()

    assert ending.begun == 2


async def test_when_it_keeps_ending_the_process_does() -> None:
    ending = Ending(raises(ValueError("wrong")), times=100)
    it = Supervised("it", ending.run, FakeClock(), give_up=ending.gave_up.set)
    async with asyncio.timeout(60):
        await ending.gave_up.wait()
    await it.stop()

    assert ending.begun == MOST_ENDS


async def test_now_and_then_is_not_too_often() -> None:
    clock = FakeClock()
    ending = Ending(lambda: None, times=2 * MOST_ENDS)
    real = ending.run

    async def rarely() -> None:
        await clock.advance(Duration(MINUTE // 2))
        await real()

    it = Supervised("it", rarely, clock, give_up=ending.gave_up.set)
    async with asyncio.timeout(60):
        await ending.goes_on.wait()
    await it.stop()

    assert not ending.gave_up.is_set()


async def test_one_that_is_told_to_end_may_do_so_by_itself() -> None:
    told = asyncio.Event()
    ended: list[str] = []

    async def run() -> None:
        await told.wait()
        ended.append("well")

    with capture_logs() as lines:
        it = Supervised("it", run, FakeClock())
        await asyncio.sleep(0)
        told.set()
        await it.stop(within=10)

    assert (ended, lines) == (["well"], [])


async def test_one_that_does_not_end_is_cancelled() -> None:
    it = Supervised("it", asyncio.Event().wait, FakeClock())  # type: ignore[arg-type]
    async with asyncio.timeout(SECOND):
        await it.stop(within=0.01)


ENDS = """
import asyncio
from oncue import logs
from oncue.clock import SystemClock
from oncue.restarting import Supervised

async def main():
    Supervised("it", lambda: asyncio.sleep(0), SystemClock())
    await asyncio.sleep(60)

logs.configure("test")
asyncio.run(main())
"""


def test_the_exit_code_is_one_of_its_own_and_the_last_line_says_why() -> None:
    ended = subprocess.run([sys.executable, "-c", ENDS], capture_output=True, text=True, timeout=50, check=False)

    assert ended.returncode == GAVE_UP == 70
    last = json.loads(ended.stderr.splitlines()[-1])
    assert (last["service"], last["ends"], last["level"]) == ("it", MOST_ENDS, "critical")
