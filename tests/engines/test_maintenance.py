"""Tidying up: every statement takes a bite at most, all of it is done in the end, and no part keeps another from it."""

from itertools import count
from typing import Any

import pytest
from msgspec.structs import replace

from oncue.domain.errors import StoreUnavailable
from oncue.domain.ids import RunId
from oncue.domain.instants import DAY, HOUR, SECOND, Duration
from oncue.domain.lane import Concurrency
from oncue.domain.run import State
from oncue.engines import bites
from oncue.engines.bites import Walk, all_of, in_bites
from oncue.engines.port import Count
from oncue.engines.postgres import maintenance as postgres_maintenance
from oncue.engines.postgres import meters as postgres_meters
from oncue.engines.sqlite import maintenance as sqlite_maintenance
from oncue.engines.sqlite import meters as sqlite_meters
from oncue.testing import conformance
from oncue_conformance.store import Store, ids, only

store = conformance.store
MONTH = Duration(30 * DAY)
BITE = 3


def in_small_bites(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (bites, postgres_maintenance, sqlite_maintenance, postgres_meters, sqlite_meters):
        monkeypatch.setattr(module, "BITE", BITE)


async def dead_letters(store: Store, n: int, **how: Any) -> list[RunId]:
    runs = []
    for _ in range(n):
        runs.append(await store.one_shot(**how))
        await store.end(runs[-1], State.DEAD)
        store.advance(SECOND)
    return runs


async def rows(store: Store, table: str) -> int:
    found: Any = store.engine
    if store.engine.name == "postgres":
        return int((await found._store.fetch(f"select count(*) from {table}"))[0][0])
    return int(await found._store.read(lambda db: next(db.execute(f"select count(*) from {table}"))[0]))


async def test_whatever_is_forgotten_is_forgotten_in_bites(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten of each kind, three at a time."""
    for n in range(10):
        new = await store.new_one_shot(gate=(f"gate {n}", 1), key=f"key {n}", tags=(f"tag {n}",))
        await store.create(new)
        await store.end(RunId(new.job.job_id), State.SUCCEEDED)
        job_id = await store.recurring(store.every(HOUR, max_runs=1), concurrency=Concurrency(f"gate {n}", 1))
        await store.edit(job_id, payload=b"2")
        await store.jobs.cancel(None, job_id, store.now)
    in_small_bites(monkeypatch)
    store.advance(32 * DAY)

    assert await store.maintenance.maintain(store.now, MONTH) >= 1

    for table in ("jobs", "job_versions", "job_tags", "job_keys", "lanes"):
        assert await rows(store, table) == 0, table


async def test_dead_letters_are_dropped_in_bites_and_told_of(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    await dead_letters(store, 7)
    theirs = await dead_letters(store, 1, uid=store.stranger)
    in_small_bites(monkeypatch)
    store.advance(400 * DAY - SECOND)

    await store.maintenance.maintain(store.now, MONTH)

    assert ids((await store.lists.dead_letters(None)).items) == theirs
    told = [audit_entry.detail for audit_entry in (await store.audit.entries(store.uid)).items]
    assert told == [b'{"count":%d,"why":"too old"}' % n for n in (1, 3, 3)]


async def test_of_too_many_dead_letters_the_oldest_are_dropped(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    maintenance: Any = store.maintenance
    monkeypatch.setattr(maintenance, "_settings", replace(maintenance._settings, most_dead_letters=4))
    monkeypatch.setattr(postgres_maintenance, "USERS_AT_ONCE", 1)
    in_small_bites(monkeypatch)
    mine, theirs = await dead_letters(store, 11), await dead_letters(store, 5, uid=store.stranger)

    await store.maintenance.maintain(store.now, MONTH)

    assert ids((await store.lists.dead_letters(store.uid)).items) == mine[:-5:-1]
    assert ids((await store.lists.dead_letters(store.stranger)).items) == theirs[:0:-1]
    assert (await store.run(mine[0])).state is State.DEAD  # its history stays
    told = only((await store.audit.entries(store.stranger)).items)
    assert (told.action, told.detail) == ("dead_letters.drop", b'{"count":1,"why":"too many"}')
    await store.maintenance.maintain(store.now, MONTH)
    assert len((await store.audit.entries(store.stranger)).items) == 1


@pytest.mark.parametrize("part", ["_forget_keys", "_make_room", "_drop_dead_letters"])
async def test_a_part_that_fails_keeps_no_other_from_being_done(
    store: Store, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """Above all, history is dropped: else a store fills up because of something that is merely slow."""
    run_id = await store.one_shot(gate=("g", 1))
    await store.end(run_id, State.SUCCEEDED)
    store.advance(32 * DAY)
    maintenance: Any = store.maintenance

    async def slow(*_: Any) -> None:
        raise StoreUnavailable("no answer in time")

    monkeypatch.setattr(maintenance, part, slow)
    with pytest.raises(StoreUnavailable):
        await store.maintenance.maintain(store.now, MONTH)

    assert await store.history.run(None, run_id) is None
    assert await rows(store, "lanes") == 0


async def test_counts_are_folded_a_bite_at_a_time(store: Store) -> None:
    for _ in range(7):
        await store.one_shot()
    assert [await store.maintenance.roll_up(3) for _ in range(4)] == [3, 3, 1, 0]
    assert (await store.counts())[Count.CREATED] == 7


# ------------------------------------------------------------------------------------------------------------ the means


async def test_all_of_them_are_tried_and_the_first_error_is_raised() -> None:
    done: list[int] = []

    async def part(n: int) -> None:
        done.append(n)
        if n % 2:
            raise ValueError(n)

    with pytest.raises(ValueError, match="1"):
        await all_of([lambda n=n: part(n) for n in range(4)])  # type: ignore[misc]  # of this turn
    assert done == [0, 1, 2, 3]


async def test_bites_end_when_one_is_not_full_or_there_were_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bites, "BITE", 3)
    monkeypatch.setattr(bites, "BITES", 4)
    left, taken = 8, count()

    async def bite() -> int:
        nonlocal left
        next(taken)
        size = min(3, left)
        left -= size
        return size

    await in_bites(bite)
    assert (left, next(taken)) == (0, 3)
    left = 100
    await in_bites(bite)
    assert left == 88


async def test_a_walk_goes_on_where_it_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bites, "BITES", 2)
    walk, seen = Walk(), []

    async def bite(after: int) -> int | None:
        seen.append(after)
        return after + 1 if after < 3 else None

    await walk.go(0, bite)
    assert (seen, walk.unfinished) == ([0, 1], True)
    await walk.go(0, bite)
    assert (seen, walk.unfinished) == ([0, 1, 2, 3], False)
    await walk.go(0, bite)
    assert seen[4:] == [0, 1]
