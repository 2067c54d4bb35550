"""Fair peeks: a few due runs of every user in turn, however many one of them has."""

from __future__ import annotations

import pytest

from oncue.domain.ids import RunId, UserNumber
from oncue.domain.instants import HOUR, MINUTE, SECOND
from oncue.domain.run import Peeked
from oncue_conformance.store import Store, job_of

NOBODY = UserNumber(0)  # before every user
FLOODS = [2, 2_500]  # late runs of one user: an engine may search many in another way than few


async def fair(store: Store, after: UserNumber = NOBODY, users: int = 10, each: int = 10) -> list[Peeked]:
    return (await store.running.peek_fair(await store.class_ids(), after, users, each, store.now)).runs


async def users_with_work(store: Store, n: int, **how: object) -> dict[UserNumber, list[RunId]]:
    """Create this many users, in the order of their numbers, each with three due runs."""
    found = {}
    for i in range(n):
        uid = await store.accounts.user(f"user {i}", store.now)
        found[uid] = await store.one_shots(3, due=-MINUTE, apart=1, uid=uid, **how)
    return dict(sorted(found.items()))


@pytest.mark.parametrize("flood", FLOODS)
async def test_each_user_has_a_turn_however_much_one_has(store: Store, flood: int) -> None:
    await store.one_shots(flood, due=-HOUR, apart=1)
    others = await users_with_work(store, 3)

    found = await fair(store, each=2)

    assert [run.uid for run in found] == [uid for uid in sorted([store.uid, *others]) for _ in range(2)]
    for uid, runs in others.items():
        assert {run.run_id for run in found if run.uid == uid} < set(runs)


async def test_a_run_is_shown_as_any_peek_shows_it(store: Store) -> None:
    run_id = await store.one_shot(-SECOND)
    [class_id] = await store.class_ids()

    assert await fair(store) == [Peeked(run_id, store.at(-SECOND), class_id, store.uid)]


async def test_the_turn_begins_after_the_user_named(store: Store) -> None:
    first, second, third = await users_with_work(store, 3)

    assert [run.uid for run in await fair(store, after=first, users=2, each=1)] == [second, third]


@pytest.mark.parametrize("flood", FLOODS)
async def test_after_the_last_user_comes_the_first(store: Store, flood: int) -> None:
    await store.one_shots(flood, due=-HOUR, apart=1)
    first, second, third = sorted([store.uid, *await users_with_work(store, 2)])

    assert [run.uid for run in await fair(store, after=second, users=2, each=1)] == [third, first]
    assert [run.uid for run in await fair(store, after=third, users=1, each=1)] == [first]


@pytest.mark.parametrize("flood", FLOODS)
async def test_nobody_has_two_turns_in_one_round(store: Store, flood: int) -> None:
    await store.one_shots(flood, due=-HOUR, apart=1)
    first, second, third = sorted([store.uid, *await users_with_work(store, 2)])

    assert [run.uid for run in await fair(store, after=second, users=10, each=1)] == [third, first, second]


async def test_round_after_round_everybody_comes_up(store: Store) -> None:
    everybody = await users_with_work(store, 5)
    seen, last = [], NOBODY

    for _ in range(5):
        found = await fair(store, after=last, users=2, each=1)
        seen += [run.uid for run in found]
        last = found[-1].uid

    assert seen == [*everybody, *everybody]


@pytest.mark.parametrize("flood", FLOODS)
async def test_only_what_could_be_claimed_is_seen_in_turn(store: Store, flood: int) -> None:
    """Neither runs that a lane, a gate or a pause holds, nor running, ended, future or retrying ones."""
    await store.one_shots(flood, due=-HOUR, apart=1, uid=store.stranger)
    heads = [await store.one_shot(-MINUTE, group="g"), await store.one_shot(-MINUTE, gate=("c", 1))]
    await store.one_shots(3, due=-SECOND, apart=1, group="g")
    await store.one_shots(3, due=-SECOND, apart=1, gate=("c", 1))
    paused, running, ended, failed = await store.one_shots(4, due=-SECOND)
    await store.one_shot(1)
    await store.pause(job_of(paused))
    worker = await store.worker()
    await store.claim_one(worker, running)
    await store.succeed(worker, await store.claim_one(worker, ended))
    await store.fail(worker, await store.claim_one(worker, failed))

    assert {run.run_id for run in await fair(store, each=100) if run.uid == store.uid} == set(heads)


async def test_the_future_is_not_peeked_at_in_turn(store: Store) -> None:
    now = await store.one_shot()
    await store.one_shot(1)

    assert [run.run_id for run in await fair(store)] == [now]


@pytest.mark.parametrize("flood", FLOODS)
async def test_who_has_nothing_due_takes_nobodys_turn(store: Store, flood: int) -> None:
    await store.one_shot(HOUR)
    await store.one_shot(HOUR, uid=store.stranger)
    [late, later] = await users_with_work(store, 2)
    await store.one_shots(flood, due=-HOUR, apart=1, uid=later)

    assert [run.uid for run in await fair(store, users=1, each=1)] == [late]


async def test_only_the_classes_asked_for_have_turns(store: Store) -> None:
    a = await store.new_one_shot(-SECOND, task="a")
    await store.create(a, await store.new_one_shot(-MINUTE, task="b"))

    found = await store.running.peek_fair([a.class_id], NOBODY, 10, 10, store.now)

    assert [run.run_id for run in found.runs] == [a.job.job_id]
    assert (await store.running.peek_fair([], NOBODY, 10, 10, store.now)).runs == []


async def test_where_most_have_nothing_due_round_after_round_everybody_comes_up(store: Store) -> None:
    """No round reaches all of these users, and none begins where the last one did."""
    users = [await store.accounts.user(f"user {i}", store.now) for i in range(1_500)]
    await store.create(*[await store.new_one_shot(HOUR, uid=uid) for uid in users])
    last = await store.accounts.user("the last", store.now)
    await store.one_shots(2_500, due=-HOUR, apart=1, uid=last)
    after, seen = NOBODY, set[UserNumber]()

    for _ in range(2):
        found = await store.running.peek_fair(await store.class_ids(), after, 10, 1, store.now)
        seen |= {run.uid for run in found.runs}
        if found.reached is not None:
            after = found.reached

    assert seen == {last}


@pytest.mark.parametrize("flood", FLOODS)
async def test_what_was_created_before_and_after_much_that_is_to_come_has_a_turn(store: Store, flood: int) -> None:
    await store.one_shots(flood, due=-HOUR, apart=1, uid=store.stranger)
    before = await store.one_shot(-SECOND)
    store.advance(SECOND)
    await store.one_shots(1_500, due=HOUR)
    store.advance(SECOND)
    after = await store.one_shot(-SECOND)

    assert {run.run_id for run in await fair(store) if run.uid == store.uid} == {before, after}


async def test_without_work_there_is_no_turn(store: Store) -> None:
    assert await fair(store) == []
