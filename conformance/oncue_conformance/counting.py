"""Counts: written as things happen, and consistent.

Counts and measures over time: by the minute, later by the hour, and in the end not at all.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from oncue.domain.buckets import LAG, RUN, bucket
from oncue.domain.change import resume
from oncue.domain.ids import ClassId, UserNumber
from oncue.domain.instants import DAY, HOUR, MILLISECOND, MINUTE, SECOND, Duration, Instant
from oncue.domain.policy import CatchUp, Overlap
from oncue.domain.run import Settlement, State
from oncue.engines.port import EVERYBODY, Count, Counter, Measure, Point
from oncue_conformance.dead_letters import requeued
from oncue_conformance.store import Store, job_of


def sum_of(counters: Iterable[Counter]) -> Tally[Count]:
    found: Tally[Count] = Tally()
    for one in counters:
        found[one.what] += one.n
    return found


async def test_counts_add_up(store: Store) -> None:
    """I16, through every state that a run can reach."""
    a, b, c, d, e, f, g = await store.one_shots(7, start_within=MINUTE)
    await store.one_shot(HOUR)
    worker = await store.worker()
    await store.succeed(worker, await store.claim_one(worker, a))
    await store.fail(worker, await store.claim_one(worker, b), retry=False)
    await store.fail(worker, await store.claim_one(worker, c))
    await store.hand_back(worker, await store.claim_one(worker, d))
    await store.claim_one(worker, e)
    await store.running.cancel(None, f, store.now)
    await store.running.cancel(None, d, store.now)
    store.advance(2 * MINUTE)
    assert len(await store.planning.expire(10, store.now)) == 1
    assert await store.state(g) is State.EXPIRED
    await store.fleet.leave(worker)
    await store.recover_runs()

    counts = await store.counts()
    assert counts == {
        Count.RETRIED: 1,
        Count.CREATED: 8,
        Count.SUCCEEDED: 1,
        Count.DEAD: 1,
        Count.LOST: 1,
        Count.CANCELLED: 2,
        Count.EXPIRED: 1,
    }
    await store.check_counts()


async def test_counts_are_kept_by_user_and_class(store: Store) -> None:
    mine = await store.new_one_shot(task="a")
    other_task = await store.new_one_shot(task="b")
    theirs = await store.new_one_shot(task="a", uid=store.stranger)
    await store.create(mine, other_task, theirs, await store.new_one_shot(task="a"))
    await store.maintenance.roll_up()

    found = [await store.history.counters(uid) for uid in (store.uid, store.stranger, None)]

    a, b = mine.class_id, other_task.class_id
    assert found == [
        [Counter(store.uid, a, Count.CREATED, 2), Counter(store.uid, b, Count.CREATED, 1)],
        [Counter(store.stranger, a, Count.CREATED, 1)],
        [Counter(EVERYBODY, a, Count.CREATED, 3), Counter(EVERYBODY, b, Count.CREATED, 1)],
    ]


async def test_everybodys_counts_are_those_of_each(store: Store) -> None:
    """Before they are rolled up, in between, and after."""
    for _ in range(2):
        for uid in (store.uid, store.stranger):
            await store.one_shots(2, uid=uid)
            await store.end(await store.one_shot(-1, uid=uid), State.DEAD)
        for folded in (False, True):
            if folded:
                await store.maintenance.roll_up()
            each = sum_of(
                await store.history.counters(store.uid) + await store.history.counters(store.stranger),
            )
            assert sum_of(await store.history.counters()) == each
            assert each[Count.CREATED] == 3 * each[Count.DEAD]


async def open_letters(store: Store, uid: UserNumber | None = None) -> int:
    counts = await store.counts(uid)
    return counts[Count.DEAD] - counts[Count.REQUEUED] - counts[Count.DISCARDED]


async def test_open_dead_letters_are_those_that_neither_went_nor_came_back(store: Store) -> None:
    dead = [await store.one_shot(-9) for _ in range(6)]
    for run_id in dead:
        await store.end(run_id, State.DEAD)
    for uid in (store.stranger, store.uid):
        assert await open_letters(store, uid) == (6 if uid == store.uid else 0)

    letter = await requeued(store, dead[0])
    for _ in range(2):  # the second is a repeat: the letter has gone
        await store.history.requeue([letter], store.now)
    assert await open_letters(store) == 5
    await store.history.discard(None, dead[:2])
    assert await open_letters(store) == 4
    await store.jobs.purge(job_of(dead[2]), 10)
    assert await open_letters(store) == 3 == len((await store.lists.dead_letters(None)).items)
    counts = await store.counts()
    assert (counts[Count.REQUEUED], counts[Count.DISCARDED]) == (1, 2)


async def test_dead_letters_that_retention_drops_are_discarded(store: Store) -> None:
    await store.end(await store.one_shot(-9), State.DEAD)
    store.advance(500 * DAY)
    await store.maintenance.maintain(store.now, Duration(365 * DAY))

    assert (await store.lists.dead_letters(None)).items == ()
    assert await open_letters(store) == 0


async def test_the_dead_letters_of_a_recurring_job_that_is_purged_are_discarded(store: Store) -> None:
    job_id = await store.recurring(every=MINUTE, overlap=Overlap.ALLOW)
    await store.plan(ahead=2 * MINUTE)
    store.advance(2 * MINUTE)
    worker = await store.worker()
    await store.fail(worker, *await store.claim_due(worker), retry=False)
    await store.jobs.cancel(None, job_id, store.now)

    assert await open_letters(store) == 2
    while await store.jobs.purge(job_id, 1):
        pass
    assert await open_letters(store) == 0


async def test_occurrences_that_made_no_run_are_counted_as_the_ledger_has_them(store: Store) -> None:
    """By planning, by overlap, by a resume, and by an edit of a crowded job's runs."""
    late = await store.recurring(every=MINUTE, catch_up=CatchUp.LAST)
    skips = await store.recurring(every=MINUTE, overlap=Overlap.SKIP)
    paused = await store.recurring(every=MINUTE, uid=store.stranger)
    await store.pause(paused)
    store.advance(10 * MINUTE)
    await store.plan_all()
    worker = await store.worker()
    await store.claim_due(worker)
    store.advance(MINUTE)
    await store.plan_all()
    await store.decide_overlaps()
    await store.change(paused, lambda snap: resume(snap, CatchUp.SKIP, store.now))

    for uid, jobs in ((store.uid, (late, skips)), (store.stranger, (paused,)), (None, (late, skips, paused))):
        ledger = Tally[str]()
        for job_id in jobs:
            for entry in await store.ledger(job_id):
                ledger[entry.outcome] += entry.count
        counts = await store.counts(uid)
        assert {what: counts[what] for what in (Count.SKIPPED, Count.COALESCED, Count.MISSED) if counts[what]} == ledger
    assert len(ledger) > 1


async def test_folding_changes_no_sum(store: Store) -> None:
    await store.one_shots(3)
    before = await store.counts()
    await store.maintenance.roll_up()

    assert await store.maintenance.roll_up() == 0
    assert await store.counts() == before


# ------------------------------------------------------------------------------------------------------------ over time

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
