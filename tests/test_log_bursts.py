"""Bursts of log lines: the first ones are written, the others counted, and the count is told."""

from oncue.domain.instants import SECOND, Duration
from oncue.logs.limits import EVERY, FIRST, Bursts
from oncue.testing.clock import FakeClock


class Told:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.lines: list[tuple[str, str, str | None, int]] = []
        self.bursts = Bursts(self.clock, lambda *line: self.lines.append(line))

    def say(self, times: int, kind: str = "run_dead", task: str | None = "mail") -> int:
        return sum(self.bursts.admit("error", kind, task) for _ in range(times))


async def test_a_burst_is_five_lines_and_then_a_count_every_ten_seconds_until_it_ends() -> None:
    told = Told()
    assert told.say(100) == FIRST

    await told.clock.advance(EVERY)
    assert told.lines == [("error", "run_dead", "mail", 95)]

    assert told.say(7) == 0
    await told.clock.advance(EVERY)
    assert told.lines[1:] == [("error", "run_dead", "mail", 7)]

    await told.clock.advance(EVERY)
    assert (len(told.lines), told.say(3), told.bursts.suppressed) == (2, 3, 102)


async def test_each_kind_and_task_has_its_own() -> None:
    told = Told()

    assert [told.say(6), told.say(6, task="other"), told.say(6, kind="run_late"), told.say(6, task=None)] == [FIRST] * 4


async def test_asking_whether_it_is_full_takes_no_line_away() -> None:
    told = Told()

    assert not any(told.bursts.full("run_dead", "mail") for _ in range(10))
    assert told.say(10) == FIRST
    assert told.bursts.full("run_dead", "mail")
    told.bursts.flush()
    assert told.lines == [("error", "run_dead", "mail", 6)]


class NoLoop(FakeClock):
    def call_later(self, *_: object) -> object:  # type: ignore[override]  # what happens in a thread
        raise RuntimeError("no running event loop")


async def test_without_a_loop_the_next_line_ends_the_window() -> None:
    told = Told()
    told.bursts = Bursts(NoLoop(), lambda *line: told.lines.append(line))
    clock: FakeClock = told.bursts._clock  # type: ignore[assignment]
    assert told.say(8) == FIRST

    await clock.advance(Duration(EVERY + SECOND))

    assert (told.say(1), told.lines) == (0, [("error", "run_dead", "mail", 3)])
