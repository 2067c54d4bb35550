"""Rates: starts are granted ahead, one after the other, and never more of them than a rate allows."""

from __future__ import annotations

from oncue.domain.ids import RunId
from oncue.domain.instants import DAY, HOUR, MINUTE, SECOND, Duration, Instant
from oncue.domain.job import Rate
from oncue.domain.lane import Held
from oncue.domain.policy import Overlap
from oncue.domain.run import State
from oncue.engines.port import Permitted
from oncue_conformance.store import Store

KEEP = Duration(365 * DAY)


def rate(limit: int, per: int, key: str | None = None) -> Rate:
    return Rate(limit, Duration(per), key)


async def dues(store: Store, *run_ids: RunId) -> list[Instant]:
    return [(await store.run(run_id)).due for run_id in run_ids]


async def granted(store: Store, *run_ids: RunId) -> list[RunId]:
    """Return those of these runs that no longer wait for their rate."""
    return [run_id for run_id in run_ids if Held.RATE not in (await store.run(run_id)).held]


async def done(store: Store, run_id: RunId) -> None:
    await store.permit()
    await store.end(run_id, State.SUCCEEDED)


# ------------------------------------------------------------------------------------------------------ what is granted


async def test_without_rates_there_is_nothing_to_grant(store: Store) -> None:
    await store.one_shot()

    assert await store.permit() == Permitted()


async def test_a_run_with_a_rate_starts_only_when_it_was_granted_one(store: Store) -> None:
    run_id = await store.one_shot(rate=rate(1, SECOND))
    worker = await store.worker()

    assert await store.claimable() == []
    assert await store.claim(worker, run_id) == []
    assert await store.permit() == Permitted(1, first_due=store.now)
    assert await store.claimable() == [run_id]
    await store.succeed(worker, await store.claim_one(worker, run_id))
    await store.check_counts()


async def test_a_start_is_granted_on_the_due_instant_if_the_rate_allows_it(store: Store) -> None:
    runs = await store.one_shots(3, due=SECOND // 4, apart=SECOND // 4, rate=rate(3, MINUTE))
    wanted = await dues(store, *runs)

    assert await store.permit(ahead=SECOND) == Permitted(3, first_due=wanted[0])
    assert await dues(store, *runs) == wanted
    store.advance(SECOND // 4)
    assert await store.claimable() == runs[:1]


async def test_what_is_due_later_is_left_for_later(store: Store) -> None:
    run_id = await store.one_shot(HOUR, rate=rate(1, SECOND))

    assert await store.permit(ahead=SECOND) == Permitted(next_at=store.at(HOUR))
    store.advance(HOUR - SECOND)
    assert await store.permit(ahead=SECOND - 1) == Permitted(next_at=store.at(SECOND))
    assert await store.permit(ahead=SECOND) == Permitted(1, first_due=store.at(SECOND))
    assert await granted(store, run_id) == [run_id]


async def test_no_more_starts_than_the_rate_allows(store: Store) -> None:
    runs = await store.one_shots(5, rate=rate(2, 10 * SECOND))
    worker = await store.worker()
    began = store.now

    assert await store.permit() == Permitted(2, began, next_at=store.at(10 * SECOND))
    assert len(await store.claim_due(worker)) == 2
    store.advance(9 * SECOND)
    assert await store.permit(ahead=SECOND - 1) == Permitted(next_at=store.at(SECOND))
    assert await store.permit(ahead=SECOND) == Permitted(2, store.at(SECOND), next_at=store.at(11 * SECOND))
    store.advance(SECOND)
    assert len(await store.claim_due(worker)) == 2
    store.advance(9 * SECOND)
    assert await store.permit(ahead=SECOND) == Permitted(1, store.at(SECOND))
    assert sorted(await dues(store, *runs)) == [began + at * SECOND for at in (0, 0, 10, 10, 20)]


async def test_starts_of_earlier_passes_count(store: Store) -> None:
    await done(store, await store.one_shot(rate=rate(2, MINUTE)))
    store.advance(SECOND)
    await store.one_shots(2, rate=rate(2, MINUTE))

    assert await store.permit() == Permitted(1, store.now, next_at=store.at(MINUTE - SECOND))


async def test_a_start_counts_until_its_stretch_is_over(store: Store) -> None:
    """The window slides: two starts at its end do not allow two more at the beginning of the next."""
    first = await store.one_shots(2, due=50 * SECOND, apart=5 * SECOND, rate=rate(2, MINUTE))
    store.advance(55 * SECOND)
    await store.permit()
    began = (await dues(store, *first))[0]
    assert began == store.at(-5 * SECOND)  # granted late: it keeps its due, but its start counts from now

    await store.claim_due(await store.worker())
    later = await store.one_shots(2, due=MINUTE, rate=rate(2, MINUTE))
    store.advance(MINUTE - 1)
    assert (await store.permit(ahead=0)).runs == 0
    store.advance(1)
    assert (await store.permit(ahead=0)).runs == 2
    assert await dues(store, *later) == [store.now, store.now]


async def test_what_is_late_starts_from_now_on_as_fast_as_the_rate_allows(store: Store) -> None:
    """No scheduler was running: runs that became due meanwhile must not start all at once."""
    runs = await store.one_shots(4, due=-HOUR, apart=MINUTE, rate=rate(1, SECOND))

    assert (await store.permit(ahead=2 * SECOND)).runs == 3
    assert await dues(store, *runs[:3]) == [store.at(-HOUR), store.at(SECOND), store.at(2 * SECOND)]
    assert await store.claimable() == runs[:1]


async def test_the_earliest_due_is_granted_first(store: Store) -> None:
    later = await store.one_shot(-SECOND, rate=rate(1, MINUTE))
    earlier = await store.one_shot(-2 * SECOND, rate=rate(1, MINUTE))

    await store.permit()

    assert await granted(store, later, earlier) == [earlier]


async def test_granting_again_grants_nothing_twice(store: Store) -> None:
    runs = await store.one_shots(3, rate=rate(2, MINUTE))
    await store.permit()
    before = await dues(store, *runs)

    assert await store.permit() == Permitted(next_at=store.at(MINUTE))
    assert await dues(store, *runs) == before


async def test_a_pass_grants_up_to_its_limit(store: Store) -> None:
    runs = await store.one_shots(5, due=-SECOND, apart=1, rate=rate(10, MINUTE))

    assert (await store.permit(limit=2)).runs == 2
    assert await granted(store, *runs) == runs[:2]
    assert (await store.permit(limit=2)).runs == 2
    assert (await store.permit(limit=2)).runs == 1


async def test_a_pass_over_many_meters_grants_up_to_its_limit(store: Store) -> None:
    """A meter that one pass skipped is granted in the next, at the same instant."""
    runs = [await store.one_shot(rate=rate(1, MINUTE, f"k{n}")) for n in range(5)]

    assert [(await store.permit(limit=2)).runs for _ in range(3)] == [2, 2, 1]
    assert await dues(store, *runs) == [store.now] * 5


# ----------------------------------------------------------------------------------------------------------- the meters


async def test_jobs_of_a_user_with_one_key_share_a_rate(store: Store) -> None:
    runs = [
        await store.one_shot(-2 * SECOND, task="a", rate=rate(1, MINUTE, "cancel_requests")),
        await store.one_shot(-SECOND, task="b", rate=rate(1, MINUTE, "cancel_requests")),
    ]

    await store.permit()

    assert await granted(store, *runs) == runs[:1]


async def test_without_a_key_it_is_the_tasks_name(store: Store) -> None:
    same = [await store.one_shot(-2 * SECOND, task="a", rate=rate(1, MINUTE)) for _ in range(2)]
    other = await store.one_shot(task="b", rate=rate(1, MINUTE))

    await store.permit()

    assert len(await granted(store, *same)) == 1
    assert await granted(store, other) == [other]


async def test_users_do_not_share_a_rate(store: Store) -> None:
    runs = [
        await store.one_shot(uid=uid, rate=rate(1, MINUTE, "cancel_requests")) for uid in (store.uid, store.stranger)
    ]

    await store.permit()

    assert await granted(store, *runs) == runs


async def test_a_backlog_of_one_rate_is_in_nobodys_way(store: Store) -> None:
    await store.one_shots(20, due=-MINUTE, rate=rate(1, HOUR, "slow"))
    await store.permit()
    await store.one_shots(5, due=-MINUTE, rate=rate(1, HOUR, "slow"))
    other = await store.one_shot(rate=rate(1, HOUR, "other"))

    assert await store.permit(limit=5) == Permitted(1, store.now, next_at=store.at(HOUR))
    assert await granted(store, other) == [other]


async def test_the_newest_definition_decides_how_fast(store: Store) -> None:
    runs = await store.one_shots(4, due=-SECOND, rate=rate(1, HOUR, "k"))
    assert (await store.permit()).runs == 1

    await store.running.cancel(None, await store.one_shot(HOUR, rate=rate(3, HOUR, "k")), store.now)
    assert (await store.permit()).runs == 2  # at once, though no due run was added
    assert len(await store.claim_due(await store.worker())) == 3
    store.advance(SECOND)
    await store.one_shot(HOUR, rate=rate(3, Duration(1), "k"))
    assert (await store.permit()).runs == 1
    assert set(await granted(store, *runs)) == set(runs)


# ------------------------------------------------------------------------------------------------------------- attempts


async def test_a_retry_waits_for_its_rate_again(store: Store) -> None:
    run_id = await store.one_shot(rate=rate(1, HOUR))
    worker = await store.worker()
    began = store.now
    await store.permit()
    await store.fail(worker, await store.claim_one(worker, run_id))
    due = (await store.run(run_id)).due

    assert began < due < began + HOUR
    assert await store.permit(ahead=0) == Permitted(next_at=Instant(began + HOUR))
    store.advance(MINUTE)
    assert await store.claimable() == []
    store.advance(HOUR)
    assert (await store.permit()).runs == 1
    assert await store.claimable() == [run_id]


async def test_a_retry_is_not_granted_before_its_instant(store: Store) -> None:
    run_id = await store.one_shot(rate=rate(10, SECOND))
    worker = await store.worker()
    await store.permit()
    await store.fail(worker, await store.claim_one(worker, run_id))
    due = (await store.run(run_id)).due

    assert await store.permit(ahead=0) == Permitted(next_at=due)
    assert await store.permit(ahead=due - store.now) == Permitted(1, first_due=due)


async def test_a_loss_counts_as_a_start_too(store: Store) -> None:
    run_id = await store.one_shot(rate=rate(1, HOUR))
    worker = await store.worker()
    await store.permit()
    await store.claim_one(worker, run_id)

    await store.lose(worker)
    await store.recover_runs()
    store.advance(MINUTE)

    assert (await store.permit()).runs == 0
    assert await store.claimable() == []
    store.advance(HOUR)
    await store.permit()
    assert await store.claimable() == [run_id]


async def test_what_is_handed_back_keeps_its_start(store: Store) -> None:
    run_id = await store.one_shot(rate=rate(1, HOUR))
    worker = await store.worker()
    await store.permit()

    await store.hand_back(worker, await store.claim_one(worker, run_id))

    assert await store.claimable() == [run_id]
    assert await store.permit() == Permitted()


async def test_what_has_expired_takes_no_start_from_others(store: Store) -> None:
    late = await store.one_shot(start_within=Duration(SECOND), rate=rate(1, HOUR))
    store.advance(MINUTE)
    run_id = await store.one_shot(rate=rate(1, HOUR))

    await store.permit()
    assert await granted(store, late, run_id) == [run_id]
    assert len(await store.planning.expire(10, store.now)) == 1


async def test_runs_of_a_schedule_obey_their_rate(store: Store) -> None:
    await store.recurring(every=MINUTE, overlap=Overlap.ALLOW, rate=rate(1, HOUR))
    await store.plan(ahead=2 * MINUTE)
    first = store.at(MINUTE)
    store.advance(2 * MINUTE)

    assert await store.claimable() == []
    assert await store.permit() == Permitted(1, first, next_at=store.at(HOUR))
    assert [run.nominal for run in await store.claim_due(await store.worker())] == [first]


# -------------------------------------------------------------------------------------------------------------- tending


async def test_tending_forgets_no_start_that_still_counts(store: Store) -> None:
    await done(store, await store.one_shot(rate=rate(1, HOUR)))
    store.advance(HOUR - 1)
    await store.maintenance.maintain(store.now, KEEP)

    await store.one_shot(rate=rate(1, HOUR))
    assert await store.permit(ahead=0) == Permitted(next_at=store.at(1))


async def test_tending_forgets_no_meter_of_a_run_that_runs(store: Store) -> None:
    run_id = await store.one_shot(rate=rate(1, SECOND))
    worker = await store.worker()
    await store.permit()
    run = await store.claim_one(worker, run_id)
    store.advance(MINUTE)
    await store.maintenance.maintain(store.now, KEEP)

    await store.fail(worker, run)
    store.advance(MINUTE)
    assert (await store.permit()).runs == 1


async def test_a_meter_that_was_forgotten_is_made_anew(store: Store) -> None:
    await done(store, await store.one_shot(rate=rate(1, SECOND)))
    store.advance(MINUTE)
    await store.maintenance.maintain(store.now, KEEP)

    await store.one_shots(2, rate=rate(1, SECOND))
    assert await store.permit(ahead=0) == Permitted(1, store.now, next_at=store.at(SECOND))


# ------------------------------------------------------------------------------------------ a clock that was set back


async def test_starts_of_a_clock_that_was_ahead_count_as_given_now(store: Store) -> None:
    """Otherwise their meter grants no start until the clock is there again; without them it would grant too many."""
    worker = await store.worker()
    runs = await store.one_shots(4, rate=rate(2, MINUTE))
    store.advance(HOUR)
    assert (await store.permit()).runs == 2
    first = await store.claim_due(worker)
    assert len(first) == 2
    store.advance(-HOUR)
    assert (await store.permit()).runs == 0

    assert await store.planning.recall(store.at(2 * SECOND), store.now) == 2
    assert await store.planning.recall(store.at(2 * SECOND), store.now) == 0

    assert await store.permit() == Permitted(next_at=store.at(MINUTE))
    store.advance(MINUTE)
    assert (await store.permit()).runs == 2
    assert {run.run_id for run in [*first, *await store.claim_due(worker)]} == set(runs)


async def test_unused_starts_of_a_clock_that_was_ahead_are_taken_back(store: Store) -> None:
    runs = await store.one_shots(3, rate=rate(1, SECOND))
    store.advance(HOUR)
    assert (await store.permit(ahead=SECOND)).runs == 2
    store.advance(-HOUR)

    assert await store.planning.recall(store.at(2 * SECOND), store.now) == 2

    assert await granted(store, *runs) == []
    assert (await store.permit(ahead=SECOND)).runs == 2
    assert sorted(await dues(store, *runs))[:2] == [store.now, store.now]
    assert len(await store.claim_due(await store.worker())) == 1


async def test_starts_that_could_be_given_by_now_are_left_alone(store: Store) -> None:
    await store.one_shots(3, rate=rate(1, SECOND))
    before = await store.permit(ahead=SECOND)

    assert await store.planning.recall(store.at(SECOND), store.now) == 0
    assert await store.permit(ahead=SECOND) == Permitted(next_at=before.next_at)
