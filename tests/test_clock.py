"""The clock follows the store's time, is never ahead of it, and counts while the machine sleeps."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from oncue.clock import SAMPLES, Offset, SystemClock, happens_within
from oncue.domain.instants import DAY, HOUR, MILLISECOND, MINUTE, SECOND, Duration, Instant, parse_instant
from oncue.testing.clock import FakeClock

DAY_ONE = 10**15
MS = MILLISECOND


def learn(offset: Offset, true: int, asked: int, there: int, back: int) -> int:
    """One question `asked` on our count; it travels for `there`, the answer for `back`. Returns the offset held."""
    offset.learn(Instant(asked + there + true), Instant(asked), Instant(asked + there + back))
    return offset.length


def test_the_first_answer_replaces_the_guess_whichever_way_it_was_off() -> None:
    for guess in (DAY_ONE + 90 * SECOND, DAY_ONE - 90 * SECOND):
        assert learn(Offset(guess), DAY_ONE, asked=0, there=2 * MS, back=3 * MS) == DAY_ONE - 3 * MS


@pytest.mark.parametrize(("there", "back"), [(0, 200 * MS), (200 * MS, 0), (100 * MS, 100 * MS)])
def test_we_are_never_ahead_of_the_store_however_lopsided_the_way(there: int, back: int) -> None:
    assert learn(Offset(0), DAY_ONE, asked=0, there=there, back=back) == DAY_ONE - back


def test_the_quickest_of_the_last_answers_counts() -> None:
    offset = Offset(0)
    held = [
        learn(offset, DAY_ONE, asked=i * SECOND, there=10 * MS, back=back * MS) for i, back in enumerate([9, 2, 5, 80])
    ]

    assert held == [DAY_ONE - 9 * MS, DAY_ONE - 2 * MS, DAY_ONE - 2 * MS, DAY_ONE - 2 * MS]


def test_an_answer_counts_for_eight_questions_and_no_longer() -> None:
    offset = Offset(0)
    learn(offset, DAY_ONE, asked=0, there=9 * MS, back=1 * MS)
    held = [learn(offset, DAY_ONE, asked=i * SECOND, there=9 * MS, back=4 * MS) for i in range(1, SAMPLES + 1)]

    assert held == [DAY_ONE - 1 * MS] * (SAMPLES - 1) + [DAY_ONE - 4 * MS]


@pytest.mark.parametrize("step", [SECOND, MINUTE])
def test_a_small_step_forward_is_followed_at_once(step: int) -> None:
    offset = Offset(0)
    learn(offset, DAY_ONE, asked=0, there=MS, back=MS)

    assert learn(offset, DAY_ONE + step, asked=SECOND, there=MS, back=MS) == DAY_ONE + step - MS


def follow_for(offset: Offset, true: int, since: int, seconds: int) -> list[int]:
    """The offsets held, asked every five seconds."""
    return [learn(offset, true, asked=since + i * SECOND, there=MS, back=MS) for i in range(0, seconds, 5)]


def test_a_large_step_forward_is_followed_when_the_clock_has_stayed_there() -> None:
    """Else one wrong reading would pass over a year of occurrences, and nothing brings them back."""
    offset = Offset(0)
    learn(offset, DAY_ONE, asked=0, there=MS, back=MS)

    held = follow_for(offset, DAY_ONE + HOUR, 5 * SECOND, 65)

    assert held == [DAY_ONE - MS] * 12 + [DAY_ONE + HOUR - MS]
    assert offset.doubted is None


def test_a_large_step_forward_that_is_taken_back_is_never_followed() -> None:
    offset = Offset(0)
    learn(offset, DAY_ONE, asked=0, there=MS, back=MS)

    for again in range(5):
        begun = (1 + 100 * again) * SECOND
        assert set(follow_for(offset, DAY_ONE + 365 * DAY, begun, 55)) == {DAY_ONE - MS}
        assert offset.doubted == pytest.approx(365 * DAY, abs=SECOND)
        assert set(follow_for(offset, DAY_ONE, begun + 60 * SECOND, 10)) == {DAY_ONE - MS}
        assert offset.doubted is None


def test_a_clock_that_goes_from_one_mistake_to_the_next_is_not_followed() -> None:
    offset = Offset(0)
    learn(offset, DAY_ONE, asked=0, there=MS, back=MS)
    for hours in (1, 5, 2, 9):
        assert set(follow_for(offset, DAY_ONE + hours * HOUR, hours * 100 * SECOND, 40)) == {DAY_ONE - MS}

    assert learn(offset, DAY_ONE - HOUR, asked=10**9, there=MS, back=MS) == DAY_ONE - HOUR - MS  # back is at once
    assert learn(offset, DAY_ONE - HOUR, asked=2 * 10**9, there=MS, back=MS) == DAY_ONE - HOUR - MS


def test_a_step_back_is_followed_at_once() -> None:
    offset = Offset(0)
    learn(offset, DAY_ONE, asked=0, there=MS, back=MS)

    assert learn(offset, DAY_ONE - HOUR, asked=SECOND, there=MS, back=MS) == DAY_ONE - HOUR - MS
    assert learn(offset, DAY_ONE - HOUR, asked=2 * SECOND, there=MS, back=2 * MS) == DAY_ONE - HOUR - MS


def test_a_step_back_smaller_than_the_way_is_followed_as_soon_as_it_is_certain() -> None:
    offset = Offset(0)
    learn(offset, DAY_ONE, asked=0, there=MS, back=MS)
    back_then = DAY_ONE - 5 * MS

    assert learn(offset, back_then, asked=SECOND, there=10 * MS, back=10 * MS) == DAY_ONE - MS  # it may be the way
    assert learn(offset, back_then, asked=2 * SECOND, there=3 * MS, back=2 * MS) == back_then - 2 * MS


@pytest.mark.parametrize("per_question", [-1, 1])
def test_a_slow_drift_is_followed(per_question: int) -> None:
    """A store whose clock gains or loses a millisecond from one question to the next."""
    offset = Offset(0)
    for i in range(100):
        true = DAY_ONE + i * per_question * MS
        held = learn(offset, true, asked=i * 5 * SECOND, there=2 * MS, back=2 * MS)
        assert -2 * MS <= held - true <= 2 * MS


def test_the_system_clock_counts_from_what_it_was_told() -> None:
    clock = SystemClock()
    asked = clock.monotonic()
    clock.follow(Instant(DAY_ONE), asked, asked)

    before, now, after = clock.monotonic(), clock.now(), clock.monotonic()

    assert before - asked <= now - DAY_ONE <= after - asked


def test_the_count_never_goes_back() -> None:
    counts = [SystemClock().monotonic() for _ in range(1_000)]

    assert all(one <= two for one, two in pairwise(counts))


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="this system has no such clock")
def test_the_count_goes_on_while_the_machine_is_suspended() -> None:
    before = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000
    counted = SystemClock().monotonic()
    after = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000

    assert before <= counted <= after


# ---------------------------------------------------------------------------------------------------------- a FakeClock


async def test_what_takes_too_long_by_a_fake_clock_times_out() -> None:
    clock, began = FakeClock(), asyncio.Event()

    async def wait() -> None:
        async with clock.timeout(Duration(SECOND)):
            began.set()
            await asyncio.Event().wait()

    waiting = asyncio.create_task(wait())
    await began.wait()
    await clock.advance(Duration(SECOND - 1))
    assert not waiting.done()
    await clock.advance(Duration(1))

    with pytest.raises(TimeoutError):
        await waiting


async def test_what_ends_in_time_does_not() -> None:
    clock = FakeClock()
    async with clock.timeout(Duration(SECOND)):
        pass

    await clock.advance(Duration(2 * SECOND))


async def test_a_fake_clock_calls_in_order_and_not_what_was_cancelled() -> None:
    clock, called = FakeClock(), list[int]()
    for seconds in (3, 1, 2):
        clock.call_later(Duration(seconds * SECOND), lambda seconds=seconds: called.append(seconds))
    clock.call_later(Duration(SECOND), lambda: called.append(-1)).cancel()

    await clock.advance(Duration(2 * SECOND))

    assert called == [1, 2]


@pytest.mark.parametrize("make", [FakeClock, SystemClock])
async def test_an_event_is_waited_for_as_long_as_it_may_take(make: type[FakeClock] | type[SystemClock]) -> None:
    clock, event = make(), asyncio.Event()
    assert not await happens_within(clock, event, Duration(0))
    clock.call_later(Duration(MS), event.set)
    waiting = asyncio.create_task(happens_within(clock, event, Duration(HOUR)))
    await asyncio.sleep(0)
    if isinstance(clock, FakeClock):
        await clock.advance(Duration(MS))

    assert await waiting
    assert await happens_within(clock, event, Duration(0))


async def test_an_event_that_does_not_happen_is_not_waited_for_longer() -> None:
    assert not await happens_within(SystemClock(), asyncio.Event(), Duration(MS))


async def test_a_fake_clock_takes_datetimes_timedeltas_and_texts() -> None:
    clock = FakeClock(datetime(2027, 1, 31, 9, tzinfo=UTC))

    await clock.advance(timedelta(hours=1))
    await clock.advance("30m")
    clock.jump("15m")

    assert clock.now() == parse_instant("2027-01-31T10:45:00Z")
    assert clock.monotonic() == 90 * MINUTE
    assert FakeClock("2027-01-31T09:00Z").now() == parse_instant("2027-01-31T09:00:00Z")
    with pytest.raises(ValueError, match="no time zone"):
        FakeClock(datetime(2027, 1, 31, 9))
