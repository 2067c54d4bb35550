"""Counts and measures over time: by the minute, later by the hour, and in the end not at all."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from oncue.domain.buckets import LAG, RUN, bucket
from oncue.domain.ids import ClassId, UserNumber
from oncue.domain.instants import DAY, HOUR, MILLISECOND, MINUTE, SECOND, Duration, Instant
from oncue.domain.run import Settlement, State
from oncue.engines.port import Count, Measure, Point
from oncue.testing.conformance.store import Store

KEEP = Duration(1_000 * DAY)


async def told(
    store: Store,
    what: Count | Measure,
    *,
    classes: list[ClassId] | None = None,
    uid: UserNumber | None = None,
    back: int = HOUR,
    step: int = MINUTE,
) -> list[Point]:
    """Fold, and return what came in the time up to now."""
    await store.maintenance.roll_up()
    until = Instant(store.now + 1)
    return await store.history.series(what, store.at(-back), until, Duration(step), classes=classes, uid=uid)


def at(when: Instant, step: int, *counts: int) -> Point:
    return Point(Instant(when - when % step), counts)


def histogram(edges: tuple[float, ...], *seconds: float) -> tuple[int, ...]:
    counts = [0] * (len(edges) + 1)
    for one in seconds:
        counts[bucket(edges, one)] += 1
    return tuple(counts)


def late(store: Store, settled: Settlement, lag: float, took: float) -> Settlement:
    """Return the settlement of an attempt that began so late and took so long, in seconds."""
    started = Instant(settled.run.eligible + round(lag * SECOND))
    return replace(settled, started_at=started, ended_at=Instant(started + round(took * SECOND)))


async def test_counts_are_told_by_the_minute(store: Store) -> None:
    new = [await store.new_one_shot(task=task) for task in "aab"]
    await store.create(*new)
    began = store.now
    store.advance(MINUTE)
    await store.create(await store.new_one_shot(task="a", uid=store.stranger))
    a, b = new[0].class_id, new[2].class_id

    assert await told(store, Count.CREATED) == [at(began, MINUTE, 3), at(store.now, MINUTE, 1)]
    assert await told(store, Count.CREATED, classes=[a]) == [at(began, MINUTE, 2), at(store.now, MINUTE, 1)]
    assert await told(store, Count.CREATED, classes=[b]) == [at(began, MINUTE, 1)]
    assert await told(store, Count.CREATED, classes=[a, b]) == await told(store, Count.CREATED)
    assert await told(store, Count.CREATED, step=HOUR) == [at(store.now, HOUR, 4)]
    assert await told(store, Count.CREATED, uid=store.uid, step=HOUR) == [at(began, HOUR, 3)]
    assert await told(store, Count.CREATED, uid=store.stranger, step=HOUR) == [at(began, HOUR, 1)]
    assert await told(store, Count.SUCCEEDED) == []
    hour = (store.at(-HOUR), Instant(store.now + 1))
    for step in (MINUTE, HOUR):
        groups: list[list[ClassId]] = [[b], [], [a, b], [a]]
        one_by_one = [await told(store, Count.CREATED, classes=group, step=step) for group in groups]
        assert await store.history.series_by(Count.CREATED, *hour, Duration(step), groups) == one_by_one
    assert await store.history.series_by(Count.CREATED, *hour, MINUTE, []) == []


async def test_attempts_are_measured_however_they_end(store: Store) -> None:
    """An attempt's lag counts from when its run could start. What was lost or handed back is not measured."""
    runs = await store.one_shots(6, due=-MINUTE, apart=1)
    for _ in range(2):
        await store.one_shot(-MINUTE, group="g")
    worker = await store.worker()
    claimed = await store.claim_due(worker)
    assert len(claimed) == 7
    by_id = {run.run_id: run for run in claimed}
    grouped = next(run for run in claimed if run.run_id not in runs)
    done = [store.failure(worker, by_id[runs[0]], retry=False), store.failure(worker, by_id[runs[1]])]
    plain = [store.failure(worker, by_id[run_id]) for run_id in runs[2:4]]
    for settled, lag, took in ((done[0], 0.001, 0.005), (done[1], 0.0011, 7200.0)):
        await store.settle(worker, late(store, settled, lag, took))
    ends = [replace(late(store, settled, 0.2, 0.3), state=State.SUCCEEDED) for settled in plain]
    await store.settle(worker, *ends)
    await store.settle(worker, *ends)  # a repeat: lost, and so not counted again
    await store.hand_back(worker, by_id[runs[4]])
    store.advance(10 * MILLISECOND)
    await store.succeed(worker, grouped)  # a minute late, and took no time
    second = next(run for run in await store.claim_due(worker) if run.run_id not in runs)
    store.advance(20 * MILLISECOND)
    await store.succeed(worker, second)
    await store.fleet.leave(worker)
    await store.recover_runs()

    lags = histogram(LAG, 0.001, 0.0011, 0.2, 0.2, 60.01, 0.02)
    lengths = histogram(RUN, 0.005, 7200, 0.3, 0.3, 0, 0)
    assert await told(store, Measure.LAG) == [at(store.now, MINUTE, *lags)]
    assert await told(store, Measure.RUN) == [at(store.now, MINUTE, *lengths)]
    window = (store.at(-HOUR), Instant(store.now + 1), MINUTE)
    by_class = await store.history.series_by(Measure.LAG, *window, [[grouped.class_id]])
    assert by_class == [[at(store.now, MINUTE, *lags)]]
    assert await told(store, Count.SUCCEEDED, uid=store.uid, step=HOUR) == [at(store.now, HOUR, 4)]
    counts = await store.counts()
    assert (counts[Count.LOST], counts[Count.RETRIED], counts[Count.DEAD]) == (2, 1, 1)


async def test_minutes_become_hours_and_hours_go(store: Store) -> None:
    began = store.now
    new = await store.new_one_shot(600 * DAY)
    await store.create(new)
    kind = new.class_id
    store.advance(MINUTE)
    await store.one_shots(2, due=600 * DAY)
    for days in (1, 3):
        await store.maintenance.roll_up()
        store.advance(days * DAY)
        await store.maintenance.maintain(store.now, KEEP)
        found = await store.history.series(Count.CREATED, began, store.at(-1), Duration(10 * MINUTE))
        assert [sum(point.counts) for point in found] == [3]
        [by_class] = await store.history.series_by(Count.CREATED, began, store.at(-1), Duration(10 * MINUTE), [[kind]])
        assert by_class == found
        by_minute = await store.history.series(Count.CREATED, began, Instant(began + HOUR), Duration(MINUTE))
        assert [point.counts for point in by_minute] == ([(1,), (2,)] if days == 1 else [(3,)])
    store.advance(began + 2 * MINUTE - store.now)
    await store.one_shot(600 * DAY)
    await store.maintenance.roll_up()
    store.advance(3 * DAY)
    await store.maintenance.maintain(store.now, KEEP)
    assert await store.history.series(Count.CREATED, began, store.now, Duration(HOUR)) == [at(began, HOUR, 4)]
    store.advance(370 * DAY)
    await store.maintenance.maintain(store.now, KEEP)

    assert await store.history.series(Count.CREATED, began, store.now, Duration(DAY)) == []
    assert (await store.counts())[Count.CREATED] == 4


@pytest.mark.parametrize(
    ("length", "step", "uid"),
    [
        (HOUR, 0, None),
        (HOUR, SECOND, None),
        (HOUR, 90 * SECOND, None),
        (1_501 * MINUTE, MINUTE, None),
        (DAY, MINUTE, 1),
    ],
)
async def test_too_fine_or_too_long_a_series_is_refused(
    store: Store, length: int, step: int, uid: UserNumber | None
) -> None:
    with pytest.raises(ValueError, match=r"multiple|up to"):
        await store.history.series(Count.CREATED, store.now, store.at(length), Duration(step), uid=uid)
    if uid is None:
        with pytest.raises(ValueError, match=r"multiple|up to"):
            await store.history.series_by(Count.CREATED, store.now, store.at(length), Duration(step), [])
    with pytest.raises(ValueError, match="counts only"):
        await store.history.series(Measure.LAG, store.now, store.at(DAY), Duration(HOUR), uid=store.uid)
