"""Overlap is decided when an occurrence is due: not before, and not much later."""

from typing import Any

import pytest

from oncue.domain.errors import StoreUnavailable
from oncue.domain.ids import JobId, WorkerId, occurrence_id
from oncue.domain.instants import MINUTE, SECOND, Duration
from oncue.domain.ledger import Entry, Outcome
from oncue.domain.planning import GRACE
from oncue.domain.policy import Overlap as Policy
from oncue.domain.run import Claimed, State
from oncue.engines.port import CancelRequest, Hint, Topic
from oncue.engines.postgres import rows as postgres_rows
from oncue.engines.sqlite import rows as sqlite_rows
from oncue.services import overlap
from oncue.services.overlap import AHEAD, MIN_PAUSE, Overlap
from oncue.services.scheduler import HORIZON, Scheduler
from oncue.testing.conformance import Store
from oncue_conformance.store import nominals, only


async def going(store: Store, policy: Policy, **how: Any) -> tuple[JobId, WorkerId, Claimed]:
    """A job every minute whose first run goes on; its second occurrence is planned and due in HORIZON."""
    job_id = await store.recurring(every=MINUTE, overlap=policy, **how)
    worker = await store.worker(lease=Duration(60 * MINUTE))
    store.advance(MINUTE)
    await Scheduler(store.engine, store.clock).run_once()
    run = only(await store.claim_due(worker))
    store.advance(MINUTE - HORIZON)
    await Scheduler(store.engine, store.clock).run_once()
    return job_id, worker, run


async def test_it_comes_back_at_the_due_instant_of_what_is_held(store: Store) -> None:
    await going(store, Policy.SKIP)
    service = Overlap(store.engine, store.clock)

    assert await service.run_once() == AHEAD  # due in a second and a half
    store.advance(AHEAD)
    assert await service.run_once() == HORIZON - AHEAD
    store.advance(HORIZON - AHEAD - 1)
    assert await service.run_once() == MIN_PAUSE  # never more often, however close
    store.advance(MIN_PAUSE)
    assert await service.run_once() == AHEAD


async def test_skip_is_decided_when_due_and_not_before(store: Store) -> None:
    job_id, _, run = await going(store, Policy.SKIP)
    service = Overlap(store.engine, store.clock)

    store.advance(HORIZON - 1)
    await service.run_once()
    assert await store.ledger(job_id) == []

    store.advance(1)
    await service.run_once()
    now = store.now
    assert await store.ledger(job_id) == [Entry(job_id, now, now, 1, Outcome.SKIPPED, "overlap", run.run_id)]
    assert nominals(await store.runs(job_id=job_id)) == [run.nominal]


async def test_a_run_that_ended_before_the_instant_is_in_nobodys_way(store: Store) -> None:
    job_id, worker, run = await going(store, Policy.SKIP)
    service = Overlap(store.engine, store.clock)
    store.advance(HORIZON - 1)
    await service.run_once()
    await store.succeed(worker, run)
    store.advance(1)

    await service.run_once()

    assert await store.claimable() == [occurrence_id(job_id, store.now)]
    assert await store.ledger(job_id) == []


async def test_queue_keeps_one_and_coalesces_the_rest(store: Store) -> None:
    job_id, worker, run = await going(store, Policy.QUEUE)
    store.advance(HORIZON)
    first = store.now
    for _ in range(2):
        await Overlap(store.engine, store.clock).run_once()
        store.advance(MINUTE)
        await Scheduler(store.engine, store.clock).run_once()
    await Overlap(store.engine, store.clock).run_once()

    kept = occurrence_id(job_id, first)
    assert sorted((entry.first, entry.outcome, entry.run_id) for entry in await store.ledger(job_id)) == [
        (first + MINUTE, Outcome.COALESCED, kept),
        (first + 2 * MINUTE, Outcome.COALESCED, kept),
    ]
    await store.succeed(worker, run)
    assert await store.claimable() == [kept]


async def test_replace_tells_the_worker_to_stop_and_the_new_run_follows(store: Store, hints: list[Hint]) -> None:
    job_id, worker, run = await going(store, Policy.REPLACE)
    hints.clear()
    store.advance(HORIZON)

    await Overlap(store.engine, store.clock).run_once()

    assert hints == [Hint(Topic.CANCELS, target=str(worker))]
    assert await store.fleet.cancel_requests(worker) == (CancelRequest(run.run_id),)
    await store.succeed(worker, run)
    assert await store.state(run.run_id) is State.CANCELLED
    assert await store.claimable() == [occurrence_id(job_id, store.now)]


async def test_replace_ends_a_run_between_two_attempts_and_workers_look_for_the_new_one(
    store: Store, hints: list[Hint]
) -> None:
    job_id, worker, run = await going(store, Policy.REPLACE)
    await store.fail(worker, run)
    hints.clear()
    store.advance(HORIZON)

    await Overlap(store.engine, store.clock).run_once()

    assert hints == [Hint(Topic.RUNS)]
    assert await store.state(run.run_id) is State.CANCELLED
    assert await store.claimable() == [occurrence_id(job_id, store.now)]


async def test_allow_lets_them_run_side_by_side(store: Store) -> None:
    job_id, _, _ = await going(store, Policy.ALLOW)
    store.advance(HORIZON)

    assert await Overlap(store.engine, store.clock).run_once() == AHEAD

    assert await store.claimable() == [occurrence_id(job_id, store.now)]


async def test_a_lost_answer_writes_no_entry_twice(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id, _, _ = await going(store, Policy.SKIP)
    store.advance(HORIZON)
    service, withdraw = Overlap(store.engine, store.clock), store.planning.withdraw

    async def applied_but_unanswered(*asked: Any) -> Any:
        await withdraw(*asked)
        raise StoreUnavailable("the answer was lost")

    monkeypatch.setattr(store.planning, "withdraw", applied_but_unanswered)
    with pytest.raises(StoreUnavailable):
        await service.run_once()
    monkeypatch.setattr(store.planning, "withdraw", withdraw)
    await service.run_once()

    assert len(await store.ledger(job_id)) == 1


async def test_many_that_only_wait_do_not_hide_one_to_decide_on(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten wait behind a stranger of their group, longer than anybody else; a look takes three at first."""
    monkeypatch.setattr(overlap, "MIN_HELD_READ", 3)
    stranger = await store.one_shot(group="g")
    await store.claim_one(await store.worker(lease=Duration(60 * MINUTE)), stranger)
    for _ in range(10):
        await store.recurring(store.every(MINUTE, max_runs=1), group="g")
    job_id, _, _ = await going(store, Policy.SKIP)
    store.advance(HORIZON)
    service = Overlap(store.engine, store.clock)

    waits = [await service.run_once() for _ in range(3)]

    assert waits == [MIN_PAUSE, MIN_PAUSE, AHEAD]
    assert [entry.outcome for entry in await store.ledger(job_id)] == [Outcome.SKIPPED]


async def test_a_held_run_whose_definition_cannot_be_read_waits_and_its_neighbours_are_decided_on(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id, _, _ = await going(store, Policy.SKIP)
    bad, _, _ = await going(store, Policy.SKIP)
    store.advance(HORIZON)
    with monkeypatch.context() as patch:
        for rows in (sqlite_rows, postgres_rows):
            patch.setattr(rows, "encode_spec", lambda _: b'{"task": "noop", "overlap": "newer"}')
        await store.edit(bad, name="edited", schedule=(await store.snapshot(bad)).job.spec.schedule)

    await Overlap(store.engine, store.clock).run_once()

    assert [entry.outcome for entry in await store.ledger(job_id)][-1:] == [Outcome.SKIPPED]
    assert await store.ledger(bad) == []


# --------------------------------------------------------------------------------------------- while nobody claims


@pytest.mark.parametrize("policy", [Policy.SKIP, Policy.QUEUE, Policy.REPLACE])
@pytest.mark.parametrize("why", ["no worker", "a paused queue"])
async def test_while_nobody_claims_at_most_one_waits_and_the_ledger_has_the_rest(
    store: Store, policy: Policy, why: str
) -> None:
    """Every second for a minute; for as long as a planner may be late, two more may wait to be decided on."""
    if why == "a paused queue":
        await store.worker()
        await store.fleet.pause_queue("default", store.now)
    job_id, began = await store.recurring(every=SECOND, overlap=policy), store.now
    scheduler, service = Scheduler(store.engine, store.clock), Overlap(store.engine, store.clock)
    for _ in range(120):
        store.advance(SECOND // 2)
        await scheduler.run_once()
        await service.run_once()
        due = [run for run in await store.runs(job_id=job_id) if run.wanted <= store.now]
        assert len(due) <= 1 + GRACE // SECOND

    ledger = await store.ledger(job_id)
    assert sum(entry.count for entry in ledger) >= 57
    assert {entry.reason for entry in ledger} == {"replaced" if policy is Policy.REPLACE else "overlap"}
    fates = [entry.first for entry in ledger] + nominals(await store.runs(job_id=job_id))
    assert sorted(fates) == [began + n * SECOND for n in range(1, len(fates) + 1)]
    assert {run.state for run in await store.runs(job_id=job_id)} == {State.WAITING}
    if why == "a paused queue":
        await store.fleet.resume_queue("default", store.now)
    assert len(await store.claim_due(await store.worker())) == 1


async def test_what_was_planned_a_little_late_is_not_taken_for_unclaimed(store: Store) -> None:
    """A scheduler died and another came two seconds later: both occurrences run, one after the other."""
    job_id, worker = await store.recurring(every=SECOND, overlap=Policy.SKIP), await store.worker()
    store.advance(2 * SECOND + SECOND // 2)
    await Scheduler(store.engine, store.clock).run_once()

    await Overlap(store.engine, store.clock).run_once()

    for _ in range(2):
        await store.succeed(worker, only(await store.claim_due(worker)))
    assert await store.ledger(job_id) == []


async def test_thousands_are_withdrawn_in_bites(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlap, "WITHDRAWN_AT_ONCE", 10)
    job_id, bites, withdraw = await store.recurring(every=SECOND, overlap=Policy.SKIP), [], store.planning.withdraw
    await store.plan_all(ahead=50 * SECOND)
    store.advance(50 * SECOND)

    async def counted(withdrawals: Any, now: Any) -> Any:
        bites.append(len(withdrawals))
        return await withdraw(withdrawals, now)

    monkeypatch.setattr(store.planning, "withdraw", counted)
    await Overlap(store.engine, store.clock).run_once()

    assert bites == [10, 10, 10, 10, 9]
    assert len(await store.ledger(job_id)) == 49
