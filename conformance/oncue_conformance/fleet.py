"""Workers: alive while they send heartbeats, declared dead once; then the runs they held are recovered.

The processes of oncue that run on a store.
"""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from msgspec.structs import replace

from oncue.domain import attempt
from oncue.domain.ids import RunId, WorkerId
from oncue.domain.instants import DAY, HOUR, SECOND, Duration, Instant
from oncue.domain.policy import OnLost
from oncue.domain.run import Claimed, Settled, Settlement, State, read_attempts
from oncue.engines.port import Beat, Count, Member, Task, Worker
from oncue_conformance.store import LEASE, Store, ids, only


async def test_a_worker_is_known_as_it_registered(store: Store) -> None:
    classes = tuple(await store.jobs.intern([(await store.new_one_shot()).job.spec.class_key]))
    worker = Worker(
        WorkerId(store.new_id()), "name", "host", LEASE, store.now, store.now, classes=classes, info=b'{"pid": 1}'
    )

    await store.fleet.register(worker, store.now)
    await store.fleet.register(worker, store.now)

    assert await store.fleet.workers() == [worker]


async def test_a_beat_says_how_it_is(store: Store) -> None:
    worker = await store.worker()
    [number] = await store.jobs.intern([(await store.new_one_shot()).job.spec.class_key])
    store.advance(SECOND)

    beat = await store.fleet.beat(worker, store.now, draining=True, classes=[number])

    assert beat == Beat(place=0, peers=1)
    known = only(await store.fleet.workers())
    assert (known.beat_at, known.draining, known.classes) == (store.now, True, (number,))


async def test_a_beat_that_names_no_classes_leaves_them_as_they_were(store: Store) -> None:
    worker = await store.worker()
    [number] = await store.jobs.intern([(await store.new_one_shot()).job.spec.class_key])
    await store.fleet.beat(worker, store.now, classes=[number])

    await store.fleet.beat(worker, store.now)
    assert only(await store.fleet.workers()).classes == (number,)

    await store.fleet.beat(worker, store.now, classes=[])
    assert only(await store.fleet.workers()).classes == ()


async def test_a_beat_says_how_busy_it_is_and_one_that_does_not_leaves_it(store: Store) -> None:
    worker = await store.worker()
    assert only(await store.fleet.workers()).load is None

    await store.fleet.beat(worker, store.now, load=b'{"busy":0.5}')
    await store.fleet.beat(worker, store.now)

    assert only(await store.fleet.workers()).load == b'{"busy":0.5}'
    assert (await store.history.gauges(store.now)).workers == tuple(await store.fleet.workers())


async def test_workers_share_out_their_places(store: Store) -> None:
    workers = [await store.worker() for _ in range(4)]

    beats = [await store.beat(worker) for worker in workers]

    assert sorted(beat.place for beat in beats if beat) == [0, 1, 2, 3]
    assert {beat.peers for beat in beats if beat} == {4}


async def test_workers_that_take_the_same_classes_know_how_many_they_are(store: Store) -> None:
    specs = [(await store.new_one_shot(queue=queue)).job.spec.class_key for queue in ("a", "b")]
    one, other = await store.jobs.intern(specs)
    workers = sorted([await store.worker() for _ in range(5)])
    takes = [[one, other], [one], [one, other], [one, other], [one, other]]
    for worker, classes in zip(workers, takes, strict=True):
        await store.fleet.beat(worker, store.now, classes=classes)
    await store.fleet.beat(workers[4], store.now, draining=True)

    beats = [await store.beat(worker) for worker in workers[:4]]

    assert [(beat.alike_before, beat.alike) for beat in beats if beat] == [(0, 3), (0, 1), (1, 3), (2, 3)]
    assert {beat.peers for beat in beats if beat} == {4}

    store.advance(LEASE // 2)  # those who are silent for so long are likely to be dead
    beats = [await store.beat(worker) for worker in (workers[2], workers[3])]
    assert [(beat.alike_before, beat.alike, beat.peers) for beat in beats if beat] == [(0, 1, 4), (1, 2, 4)]


async def test_only_who_is_named_is_buried_and_said_so_once(store: Store) -> None:
    one, two, other = [await store.worker() for _ in range(3)]
    seen = {worker.worker_id: worker.beat_at for worker in await store.fleet.workers() if worker.worker_id != other}

    assert sorted(await store.fleet.expire_workers(seen)) == sorted([one, two])
    assert await store.fleet.expire_workers(seen) == []
    assert await store.fleet.expire_workers({}) == []
    assert [worker.worker_id for worker in await store.fleet.workers()] == [other]


@pytest.mark.parametrize("step", [SECOND, 0, -HOUR], ids=["later", "at the same instant", "set back"])
async def test_whoever_has_beaten_since_is_not_buried(store: Store, step: int) -> None:
    """Whichever way the clock was set: another heartbeat has another instant."""
    worker = await store.worker()
    seen = only(await store.fleet.workers()).beat_at

    store.advance(step)
    assert await store.beat(worker) is not None

    assert await store.fleet.expire_workers({worker: seen}) == []
    assert only(await store.fleet.workers()).beat_at != seen
    assert await store.expire_workers(worker) == [worker]


async def test_the_buried_are_told_when_they_beat(store: Store) -> None:
    worker = await store.worker()
    await store.lose(worker)

    assert await store.beat(worker) is None
    assert await store.fleet.workers() == []


async def test_of_two_who_bury_at_once_one_is_told(store: Store) -> None:
    other = await store.second()
    workers = [await store.worker() for _ in range(20)]
    store.advance(LEASE + 1)

    one, two = await asyncio.gather(store.expire_workers(*workers), other.expire_workers(*reversed(workers)))

    assert sorted([*one, *two]) == sorted(workers)


async def test_a_lost_run_is_settled_as_decided(store: Store) -> None:
    run_id = await store.one_shot(max_retries=0, payload=b"[1]")
    worker, survivor = await store.worker(), await store.worker()
    claimed_at = store.now
    first = await store.claim_one(worker, run_id)
    kept = await store.claim_one(survivor, await store.one_shot())
    await store.lose(worker)
    seen: list[tuple[Claimed, WorkerId, Instant]] = []

    def decide(run: Claimed, lost_with: WorkerId, since: Instant) -> Settlement:
        seen.append((run, lost_with, since))
        return attempt.lost(run, lost_with, since, store.now)

    assert await store.running.recover_runs(10, store.now, decide) == Settled()

    assert seen == [(first, worker, claimed_at)]
    view = await store.run(run_id)
    assert (view.state, view.failures, view.losses, view.due) == (State.WAITING, 0, 1, store.now)
    again = await store.claim_one(survivor, run_id)
    assert (again.attempt, again.token, again.losses, again.payload) == (2, 2, 1, b"[1]")
    assert [(one.outcome, one.worker_id) for one in read_attempts(again.attempts)] == [("lost", worker)]
    assert await store.running.held_by(survivor, [kept.run_id]) == [kept]
    assert (await store.counts())[Count.LOST] == 1


async def test_nothing_is_reaped_from_the_living(store: Store) -> None:
    """Late, but not declared dead: only `expire_workers` takes runs away."""
    worker = await store.worker()
    run = await store.claim_one(worker, await store.one_shot())
    store.advance(10 * LEASE)

    assert await store.recover_runs() == Settled()
    assert await store.succeed(worker, run) == Settled()


async def test_the_winners_result_stands(store: Store) -> None:
    """I9: a worker was stopped for longer than its lease, and wakes when its run belongs to another, or has ended."""
    sleeper, winner = await store.worker(), await store.worker()
    stale = await store.claim_one(sleeper, await store.one_shot())
    await store.lose(sleeper)
    await store.recover_runs()

    assert (await store.succeed(sleeper, stale, result=b'"late"')).lost == {stale.run_id}
    current = await store.claim_one(winner, stale.run_id)
    assert (await store.succeed(sleeper, stale, result=b'"late"')).lost == {stale.run_id}
    assert await store.hand_back(sleeper, stale) == frozenset()
    assert not await store.running.save(sleeper, stale, checkpoint=b"late")
    assert await store.succeed(winner, current, result=b'"won"') == Settled()
    assert (await store.succeed(sleeper, stale, result=b'"late"')).lost == {stale.run_id}

    view = await store.run(stale.run_id)
    assert (view.result, view.worker_id, view.token) == (b'"won"', winner, 2)


async def test_a_run_that_takes_three_workers_down_is_dead(store: Store) -> None:
    """P7: a run that kills its workers ends, whatever max_retries says."""
    run_id = await store.one_shot(max_retries=100)
    for losses in (1, 2, 3):
        assert await store.state(run_id) is State.WAITING
        worker = await store.worker()
        await store.claim_one(worker, run_id)
        await store.lose(worker)
        await store.recover_runs()
        assert (await store.run(run_id)).losses == losses

    view = await store.run(run_id)
    assert (view.state, view.failures, view.error_type) == (State.DEAD, 0, "WorkerLost")
    assert len(read_attempts(view.attempts)) == 3
    assert ids((await store.lists.dead_letters(None)).items) == [run_id]
    await store.check_counts()


async def test_what_may_not_start_twice_is_dead_at_once(store: Store) -> None:
    run_id = await store.one_shot(on_lost=OnLost.DEAD)
    worker = await store.worker()
    await store.claim_one(worker, run_id)
    await store.lose(worker)
    await store.recover_runs()

    assert await store.state(run_id) is State.DEAD


async def test_failures_and_losses_are_two_counters(store: Store) -> None:
    run_id = await store.one_shot(max_retries=1)
    worker = await store.worker()
    await store.claim_one(worker, run_id)
    await store.lose(worker)
    await store.recover_runs()
    other = await store.worker()
    await store.fail(other, await store.claim_one(other, run_id))

    view = await store.run(run_id)
    assert (view.state, view.failures, view.losses) == (State.WAITING, 1, 1)


async def test_what_a_worker_that_left_held_is_reaped_at_once(store: Store) -> None:
    run_id = await store.one_shot()
    worker = await store.worker()
    await store.claim_one(worker, run_id)

    await store.fleet.leave(worker)
    await store.fleet.leave(worker)
    await store.recover_runs()

    assert await store.claimable() == [run_id]
    assert await store.fleet.workers() == []


async def test_reaping_takes_no_more_than_asked_for(store: Store) -> None:
    worker = await store.worker()
    await store.claim(worker, *await store.one_shots(5))
    await store.fleet.leave(worker)

    for left in (3, 1, 0, 0):
        await store.recover_runs(limit=2)
        assert len(await store.claimable()) == 5 - left


async def test_several_reapers_never_take_the_same_run(store: Store) -> None:
    stores = [store, await store.second()]
    worker = await store.worker()
    runs = await store.one_shots(40)
    await store.claim(worker, *runs)
    await store.fleet.leave(worker)
    now, written = store.now, Counter[RunId]()

    async def reaper(one: Store) -> None:
        while await one.runs(states=frozenset({State.RUNNING})):
            taken: list[RunId] = []

            def decide(run: Claimed, lost_with: WorkerId, since: Instant, taken: list[RunId] = taken) -> Settlement:
                taken.append(run.run_id)
                return attempt.lost(run, lost_with, since, now)

            settled = await one.running.recover_runs(3, now, decide)
            written.update(set(taken) - settled.lost)

    await asyncio.gather(*(reaper(stores[n % 2]) for n in range(4)))

    assert written == Counter(runs)
    assert {(await store.run(run_id)).losses for run_id in runs} == {1}


async def test_a_burial_racing_claims_leaves_nothing_behind(store: Store) -> None:
    """Runs that the dying worker still claimed are recovered; once declared dead it claimed none."""
    other = await store.second()
    runs = await store.one_shots(100)
    worker = await store.worker()
    store.advance(LEASE + 1)

    async def claim_all() -> None:
        for i in range(0, 100, 4):
            await store.claim(worker, *runs[i : i + 4])

    async def bury_soon() -> None:
        for _ in range(8):
            await other.claimable()
        await other.expire_workers(worker)

    await asyncio.gather(claim_all(), bury_soon())
    await store.recover_runs()

    assert await store.running.held_by(worker, runs) == []
    assert set(await store.claimable()) == set(runs)


async def test_tasks_stay_known_when_workers_go(store: Store) -> None:
    old = Task("a", b'{"type": "object"}', announced_at=store.now)
    new = Task("a", b'{"type": "array"}', b'{"queue": "q"}', ("admin",), announced_at=store.at(SECOND))
    b = Task("b", b"{}", announced_at=store.now)

    await store.fleet.announce([old, b], store.now)
    await store.fleet.announce([new], store.at(SECOND))

    assert sorted(await store.fleet.tasks(), key=lambda task: task.name) == [new, b]


async def test_queues_are_paused_until_they_are_resumed(store: Store) -> None:
    other = await store.second()
    first = store.now
    await store.fleet.pause_queue("a", first)
    await store.fleet.pause_queue("b", first)
    store.advance(SECOND)
    await store.fleet.pause_queue("a", store.now)

    assert set(await other.fleet.paused_queues()) == {"a", "b"}
    await other.fleet.resume_queue("a", store.now)
    await other.fleet.resume_queue("never paused", store.now)
    assert await store.fleet.paused_queues() == {"b": first}


# ----------------------------------------------------------------------------------------------- all processes of oncue


def member(store: Store, role: str = "api") -> Member:
    return Member(store.new_id(), role, "1.2.3", store.engine.schema, "host", started_at=store.now, beat_at=store.now)


async def test_a_process_is_a_member_from_its_first_heartbeat_until_it_leaves(store: Store) -> None:
    first = member(store)
    await store.members.beat(first, store.now)
    store.advance(SECOND)
    second = member(store, "worker")
    await store.members.beat(second, store.now)
    await store.members.beat(first, store.now)

    assert await store.members.known() == [replace(first, beat_at=store.now), replace(second, beat_at=store.now)]

    await store.members.leave(first.member_id)
    await store.members.leave(first.member_id)
    assert [one.member_id for one in await store.members.known()] == [second.member_id]


async def test_a_member_without_a_heartbeat_is_forgotten_after_an_hour_and_comes_back_with_one(store: Store) -> None:
    killed, stopped, alive = member(store), member(store), member(store)
    for one in (killed, stopped, alive):
        await store.members.beat(one, store.now)
    store.advance(HOUR)
    await store.members.beat(alive, store.now)
    await store.maintenance.maintain(store.now, Duration(365 * DAY))
    assert len(await store.members.known()) == 3

    store.advance(1)
    await store.maintenance.maintain(store.now, Duration(365 * DAY))
    assert [one.member_id for one in await store.members.known()] == [alive.member_id]

    await store.members.beat(stopped, store.now)
    assert {one.member_id for one in await store.members.known()} == {alive.member_id, stopped.member_id}
