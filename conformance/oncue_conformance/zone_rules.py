"""Time-zone rules change: cursors of other rules are computed again, and of two at once only the newest count."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from oncue.domain import change
from oncue.domain.ids import JobId, occurrence_id
from oncue.domain.instants import DAY, HOUR, MINUTE, NEVER, SECOND, Duration, Instant
from oncue.domain.ledger import Entry, Outcome
from oncue.domain.policy import CatchUp, Overlap
from oncue.domain.schedule import Schedule
from oncue.domain.zones import PACKAGED, Rules
from oncue.engines.port import Planned
from oncue.engines.rules import FORGOTTEN_AFTER
from oncue.testing.rules import made_up
from oncue_conformance.store import Store, nominals

AT_NINE = Schedule(cron="0 9 * * *", timezone="Europe/Berlin")
WEST = made_up("9999a", Duration(0))  # nine is nine in UTC
EAST = made_up("9999b", HOUR)  # and eight by the newer rules


async def next_at(store: Store, job_id: JobId) -> int | None:
    """Return the next instant in hours from the midnight at which tests begin."""
    cursor = (await store.snapshot(job_id)).cursor
    assert cursor is not None
    return None if cursor.next_at == NEVER else (cursor.next_at % DAY) // HOUR


async def settled(store: Store, rules: Rules) -> int:
    """Do passes until these rules leave nothing to do; return how many jobs were taken."""
    taken = 0
    while (planned := await store.plan(rules=rules)).jobs:
        taken += planned.jobs
    return taken


async def test_a_cursor_names_the_rules_that_it_follows_from(store: Store) -> None:
    zoned = await store.recurring(AT_NINE)
    utc = await store.recurring(Schedule(cron="0 9 * * *"))
    every = await store.recurring(store.every(HOUR, timezone="Europe/Berlin"))

    async def named() -> list[str | None]:
        snaps = [await store.snapshot(job_id) for job_id in (zoned, utc, every)]
        return [snap.cursor.rules for snap in snaps if snap.cursor is not None]

    assert await named() == [PACKAGED.version, None, None]
    await store.plan(ahead=DAY)
    assert await named() == [PACKAGED.version, None, None]
    await store.plan(rules=EAST)
    assert await named() == [EAST.version, None, None]
    await store.edit(zoned, schedule=Schedule(cron="0 10 * * *", timezone="Europe/Berlin"))
    assert await named() == [PACKAGED.version, None, None]
    await store.edit(zoned, schedule=Schedule(cron="0 10 * * *"))
    assert await named() == [None, None, None]


async def test_an_occurrence_that_newer_rules_move_earlier_is_neither_late_nor_missed(store: Store) -> None:
    job_id = await store.recurring(AT_NINE, overlap=Overlap.ALLOW)
    others = [await store.recurring(every=HOUR), await store.recurring(Schedule(cron="0 9 * * *"))]
    await store.plan(rules=WEST)
    assert await next_at(store, job_id) == 9

    planned = await store.plan(rules=EAST)

    assert (planned.jobs, planned.runs) == (1, 0)
    assert await next_at(store, job_id) == 8
    assert [await next_at(store, other) for other in others] == [1, 9]
    assert (await store.plan(rules=EAST)).jobs == 0
    store.advance(8 * HOUR)
    await store.plan(rules=EAST)
    assert nominals(await store.runs(job_id=job_id)) == [store.now]
    assert await store.ledger(job_id) == []


async def test_one_that_they_move_later_does_not_run_at_the_former_time(store: Store) -> None:
    job_id = await store.recurring(AT_NINE)
    await store.plan(rules=EAST)
    later = made_up("9999c", Duration(-HOUR))

    await store.plan(rules=later)

    assert await next_at(store, job_id) == 10
    store.advance(9 * HOUR)
    assert (await store.plan(rules=later)).runs == 0


@pytest.mark.parametrize("policy", CatchUp)
async def test_one_that_they_move_into_the_past_is_late(store: Store, policy: CatchUp) -> None:
    job_id, due = await store.recurring(AT_NINE, catch_up=policy), store.at(8 * HOUR)
    await store.plan(rules=WEST)
    store.advance(8 * HOUR + 30 * MINUTE)

    await store.plan(rules=EAST)

    runs, ledger = nominals(await store.runs(job_id=job_id)), await store.ledger(job_id)
    missed = Entry(job_id, due, due, 1, Outcome.MISSED, "catch_up is skip")
    assert (runs, ledger) == (([], [missed]) if policy is CatchUp.SKIP else ([due], []))


async def test_what_was_decided_by_older_rules_is_not_decided_again(store: Store) -> None:
    """It ran at nine. That it should have been at eight changes nothing any more."""
    job_id = await store.recurring(AT_NINE)
    store.advance(9 * HOUR)
    await store.plan(rules=WEST)

    await store.plan(rules=EAST)

    assert nominals(await store.runs(job_id=job_id)) == [store.now]
    assert (await next_at(store, job_id), await store.ledger(job_id)) == (8, [])


async def test_what_nobody_knows_the_rules_of_is_looked_at_once(store: Store) -> None:
    """As an earlier oncue leaves its jobs."""
    schedules = [AT_NINE, Schedule(cron="0 9 * * *"), store.every(HOUR)]
    new = [await store.new_recurring(schedule) for schedule in schedules]
    await store.create(*(replace(one, cursor=replace(one.cursor, rules="")) for one in new if one.cursor))

    assert await settled(store, WEST) == 3
    snaps = [await store.snapshot(one.job.job_id) for one in new]
    assert [snap.cursor.rules for snap in snaps if snap.cursor] == [WEST.version, None, None]


async def test_they_are_computed_in_bites_after_what_is_due(store: Store) -> None:
    due = await store.recurring(every=MINUTE)
    jobs = [await store.recurring(AT_NINE) for _ in range(8)]
    await settled(store, WEST)
    store.advance(MINUTE)

    taken = [await store.plan(limit=3, rules=EAST) for _ in range(5)]

    assert [(planned.jobs, planned.runs) for planned in taken] == [(3, 1), (3, 0), (3, 0), (0, 0), (0, 0)]
    assert [await next_at(store, job_id) for job_id in jobs] == [8] * 8
    assert len(await store.runs(job_id=due)) == 1


async def test_jobs_that_make_no_more_runs_are_left_alone(store: Store) -> None:
    paused, cancelled, ended = [await store.recurring(AT_NINE) for _ in range(3)]
    await settled(store, WEST)
    await store.edit(ended, schedule=replace(AT_NINE, max_runs=1))
    await store.pause(paused)
    await store.jobs.cancel(None, cancelled, store.now)
    await store.plan(ahead=12 * HOUR, rules=WEST)

    assert (await store.plan(rules=EAST)).jobs == 0
    assert await next_at(store, paused) is None
    await store.change(paused, lambda snap: change.resume(snap, CatchUp.SKIP, store.now))
    await store.plan(rules=EAST)
    assert await next_at(store, paused) == 8


async def test_older_rules_plan_nothing_that_they_move_while_newer_are_at_work(store: Store) -> None:
    """Not even jobs that the newer rules have not reached yet: by those they may be due at another time."""
    job_id, hourly = await store.recurring(AT_NINE), await store.recurring(every=8 * HOUR)
    await store.plan(rules=WEST)
    assert (await store.plan(limit=0, rules=EAST)).newer_rules is None
    store.advance(8 * HOUR)
    await store.plan(limit=0, rules=EAST)

    planned = await store.plan(rules=WEST)

    due = store.now
    assert planned == Planned(1, 1, due, Instant(due + 8 * HOUR), newer_rules=EAST.version)
    assert (await store.runs(job_id=job_id), len(await store.runs(job_id=hourly))) == ([], 1)
    await store.plan(rules=EAST)
    assert nominals(await store.runs(job_id=job_id)) == [due]
    assert (await store.plan(ahead=2 * HOUR, rules=WEST)).runs == 0


async def test_when_newer_rules_are_silent_for_long_the_older_take_over(store: Store) -> None:
    """All schedulers went back to them: no job may stand still for ever."""
    job_id = await store.recurring(AT_NINE)
    await store.plan(rules=EAST)

    store.advance(FORGOTTEN_AFTER)
    assert (await store.plan(rules=WEST)).newer_rules == EAST.version
    assert await next_at(store, job_id) == 8
    store.advance(1)
    assert await store.plan(rules=WEST) == Planned(jobs=1, next_at=Instant(store.now - store.now % DAY + 9 * HOUR))
    assert await next_at(store, job_id) == 9

    assert (await store.plan(rules=EAST)).jobs == 1  # and they are back
    assert (await store.plan(rules=WEST)).newer_rules == EAST.version


async def test_as_long_as_newer_rules_plan_they_are_not_forgotten(store: Store) -> None:
    await store.recurring(AT_NINE)
    for _ in range(20):
        store.advance(7 * SECOND)
        await store.plan(rules=EAST)

    store.advance(FORGOTTEN_AFTER // 2)
    assert (await store.plan(rules=WEST)).newer_rules == EAST.version


async def test_a_clock_that_was_ahead_does_not_keep_newer_rules_at_work_for_ever(store: Store) -> None:
    store.advance(DAY)
    await store.plan(rules=EAST)
    store.advance(-DAY)

    assert (await store.plan(rules=WEST)).newer_rules is None


async def test_two_kinds_of_rules_at_once_double_and_miss_nothing(store: Store) -> None:
    """From noon on the newer ones are half an hour ahead: every hour of theirs is between two of the older ones."""
    half = Duration(HOUR // 2)
    noon = store.at(12 * HOUR)
    newer = made_up("9999z", Duration(0), (noon, half))
    schedule = Schedule(cron="0 10-14 * * *", timezone="Europe/Berlin")
    jobs = [await store.recurring(schedule, overlap=Overlap.ALLOW, catch_up=CatchUp.ALL) for _ in range(4)]
    both = [store, await store.second()]

    async def planner(one: Store, rules: Rules) -> None:
        for _ in range(3):  # and not until nothing is left: each might correct the other's work for ever
            await one.plan(rules=rules, limit=3)

    store.advance(9 * HOUR)
    for _ in range(12):
        store.advance(half)
        await store.plan(limit=0, rules=newer)  # in either order, both rules are known to be in use
        await asyncio.gather(*(planner(one, rules) for one in both for rules in (WEST, newer)))

    # Twelve is in the gap: it does not exist, and comes right after it.
    expected = [Instant(noon + moved) for moved in (-2 * HOUR, -HOUR, 0, half, half + HOUR)]
    for job_id in jobs:
        runs = await store.runs(job_id=job_id)
        assert nominals(runs) == expected
        assert {run.run_id for run in runs} == {occurrence_id(job_id, at) for at in expected}
        assert await store.ledger(job_id) == []
