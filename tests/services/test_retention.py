"""Counts are folded every second; history is tended at start and then now and then."""

from typing import Any

import pytest

from oncue.domain.errors import StoreUnavailable
from oncue.domain.instants import DAY, HOUR, MINUTE, SECOND, Duration, Instant
from oncue.domain.run import State
from oncue.engines.port import ROLLED_UP_AT_ONCE, Count
from oncue.services.retention import CounterRollup, Retention, letters_at_risk
from oncue.settings import Settings
from oncue.testing.conformance import Store


async def test_counts_are_folded_once_a_second(store: Store) -> None:
    await store.one_shots(3)

    assert await CounterRollup(store.engine).run_once() == SECOND

    assert {counter.what: counter.n for counter in await store.history.counters()} == {Count.CREATED: 3}
    assert await store.maintenance.roll_up() == 0


async def test_what_is_older_than_wanted_goes_and_the_rest_stays(store: Store) -> None:
    old, young = await store.one_shot(), await store.one_shot(due=5 * DAY)
    await store.end(old, State.SUCCEEDED)
    store.advance(5 * DAY)
    await store.end(young, State.SUCCEEDED)
    retention = Retention(store.engine, store.clock, Settings(retention=Duration(2 * DAY)))

    await retention.run_once()

    assert await store.history.run(None, old) is None
    assert await store.state(young) is State.SUCCEEDED


async def test_a_clock_that_is_set_forward_once_drops_a_day_of_history_and_says_so(
    store: Store, logged: list[Any]
) -> None:
    """By a mistake beyond all that is kept: without a bound everything would be gone."""
    runs = [await store.one_shot(due=day * DAY) for day in range(10)]
    settings = Settings(retention=Duration(10 * DAY))
    for run_id in runs:
        await store.end(run_id, State.SUCCEEDED)
        await Retention(store.engine, store.clock, settings).run_once()
        store.advance(DAY)
    assert logged == []

    store.advance(3650 * DAY)
    retention = Retention(store.engine, store.clock, settings)
    for _ in range(2):
        await retention.run_once()
        await store.clock.advance(retention._every)
    assert [await store.history.run(None, run_id) is None for run_id in runs] == [True, *[False] * 9]
    assert [line["kind"] for line in logged] == ["history_behind", "history_behind", "piece_dropped"]

    store.advance(-3650 * DAY)
    for _ in range(3):
        await retention.run_once()
        await store.clock.advance(retention._every)
    assert len(logged) == 3
    assert [await store.history.run(None, run_id) is None for run_id in runs] == [True, *[False] * 9]


@pytest.mark.parametrize(
    ("width", "every"),
    [(DAY, 10 * MINUTE), (HOUR, 10 * MINUTE), (MINUTE, 30 * SECOND), (SECOND, SECOND)],
)
async def test_it_tends_at_start_and_twice_in_each_narrow_stretch(
    store: Store, monkeypatch: pytest.MonkeyPatch, width: Duration, every: int
) -> None:
    tended: list[tuple[Instant, Duration]] = []

    async def maintain(now: Instant, keep: Duration) -> int:
        tended.append((now, keep))
        return 0

    monkeypatch.setattr(store.maintenance, "maintain", maintain)
    began, settings = store.now, Settings(partition_span=width)
    retention = Retention(store.engine, store.clock, settings)

    assert await retention.run_once() == every
    await store.clock.advance(Duration(every - 1))
    assert await retention.run_once() == 1
    store.clock.jump(-DAY)  # the store's clock has no say in how long we wait
    await store.clock.advance(Duration(1))
    assert await retention.run_once() == every

    assert tended == [(began, settings.retention), (began + every - DAY, settings.retention)]


async def test_while_there_is_more_to_fold_it_comes_back_at_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    left = 2 * ROLLED_UP_AT_ONCE + 1

    async def roll_up(limit: int) -> int:
        nonlocal left
        folded = min(left, limit)
        left -= folded
        return folded

    monkeypatch.setattr(store.maintenance, "roll_up", roll_up)

    assert [await CounterRollup(store.engine).run_once() for _ in range(3)] == [0, 0, SECOND]


async def test_after_a_failure_it_tends_again_in_a_minute(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """One part took too long, perhaps: five times a second would be a load of its own."""
    tended = 0

    async def maintain(now: Instant, keep: Duration) -> int:
        nonlocal tended
        tended += 1
        raise StoreUnavailable("no answer in time")

    monkeypatch.setattr(store.maintenance, "maintain", maintain)
    retention = Retention(store.engine, store.clock, Settings())
    with pytest.raises(StoreUnavailable):
        await retention.run_once()
    assert (await retention.run_once(), tended) == (MINUTE, 1)
    await store.clock.advance(MINUTE)
    with pytest.raises(StoreUnavailable):
        await retention.run_once()


async def test_dead_letters_are_told_of_before_they_are_discarded(store: Store, logged: list[Any]) -> None:
    settings = Settings(most_dead_letters=5, keep_dead_letters=Duration(100 * DAY))
    for n in range(4):
        run_id = await store.one_shot()
        await store.end(run_id, State.DEAD)
        await store.maintenance.roll_up()
        assert (await letters_at_risk(store.engine, settings, store.now) != []) == (n == 3)
    retention = Retention(store.engine, store.clock, settings)
    for _ in range(3):
        await retention.run_once()
        await store.clock.advance(retention._every)

    told = [line["why"] for line in logged if line["kind"] == "dead_letters_at_risk"]
    assert told == ["4 of user ada; 5 are kept per user"], "once"
    many = Settings(keep_dead_letters=Duration(100 * DAY))
    assert await letters_at_risk(store.engine, many, store.at(79 * DAY)) == []
    [why] = await letters_at_risk(store.engine, many, store.at(81 * DAY))
    assert "they are kept for 100d" in why
