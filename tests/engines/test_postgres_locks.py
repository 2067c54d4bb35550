"""Lanes and gates from many sides at once: in whatever order they are touched, nobody fails, nothing stands still."""

import asyncio
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from tests.engines import test_postgres_outside as outside
from tests.engines.test_postgres_outside import KEEP, Call, Place, eventually

from oncue.domain import change
from oncue.domain.errors import Conflict
from oncue.domain.ids import JobId, lane_key
from oncue.domain.instants import HOUR, MINUTE, Duration
from oncue.domain.job import JobStatus, Rate, decode_spec
from oncue.domain.placement import ClassKey
from oncue.domain.policy import CatchUp
from oncue.domain.run import State
from oncue.engines.port import JobQuery, RunQuery
from oncue.engines.postgres import planning
from oncue.engines.postgres.classes import classes_for
from oncue.engines.postgres.store import Connection
from oncue.services.finishing import Finishing
from oncue_conformance.store import LIVE, Store, job_of, only

place = outside.place


async def quick_to_see_deadlocks(place: Place, after: str = "20 ms") -> None:
    """Those that are left are to be resolved while the test runs, and often.

    A session looks for one but once, so long after it began to wait: by then the circle must be closed.
    """
    name = await place.value("select quote_ident(current_database())")
    await place.session.execute(f"alter database {name} set deadlock_timeout = '{after}'")


class Crowd:
    """Everybody who touches lanes, in a random order. What goes wrong is raised."""

    def __init__(self, store: Store, seed: int) -> None:
        self.store = store
        self.chance = Random(seed)

    async def create(self) -> None:
        new = [
            await self.store.new_one_shot(
                -self.chance.randrange(MINUTE),
                group=self.chance.choice([None, *"abcd"]),
                gate=self.chance.choice([None, ("x", 2), ("y", 2), ("z", 3)]),
            )
            for _ in range(6)
        ]
        await self.store.create(*new)

    async def work(self) -> None:
        worker = await self.store.worker()
        due = await self.store.claimable(limit=20)
        runs = await self.store.claim(worker, *self.chance.sample(due, min(8, len(due))))
        self.chance.shuffle(runs)
        await self.store.hand_back(worker, *runs[:2])
        await self.store.succeed(worker, *runs[2:])

    async def cancel(self) -> None:
        waiting = await self.store.runs(states={State.WAITING}, limit=20)
        for run in self.chance.sample(waiting, min(2, len(waiting))):
            await self.store.running.cancel(None, run.run_id, self.store.now)

    async def pause_and_resume(self) -> None:
        waiting = await self.store.runs(states={State.WAITING}, limit=20)
        for run in self.chance.sample(waiting, min(2, len(waiting))):
            with suppress(Conflict):  # it has started
                await self.store.pause(run.job_id)
            await resume(self.store, run.job_id)

    async def plan(self) -> None:
        await self.store.recurring(every=MINUTE, group=self.chance.choice([None, *"abcd"]))
        await self.store.plan(ahead=3 * MINUTE)

    async def cancel_a_job(self) -> None:
        jobs = [row.job for row in (await self.store.lists.jobs(JobQuery(limit=10))).items]
        for job in self.chance.sample(jobs, min(1, len(jobs))):
            await self.store.jobs.cancel(None, job.job_id, self.store.now)

    async def tend(self) -> None:
        await self.store.maintenance.maintain(self.store.now, KEEP)

    async def finish(self) -> None:
        await Finishing(self.store.engine, self.store.clock).run_once()

    async def act(self, times: int) -> None:
        weights = {self.create: 3, self.plan: 2, self.work: 10, self.cancel: 2, self.cancel_a_job: 2}
        weights |= {self.pause_and_resume: 2, self.tend: 1, self.finish: 1}
        for act in self.chance.choices(list(weights), list(weights.values()), k=times):
            await act()


async def resume(store: Store, job_id: JobId) -> None:
    """Until it is: others change it at the same time."""
    while snapshot := await store.jobs.read(None, job_id):
        if snapshot.job.status is not JobStatus.PAUSED:
            return
        await store.jobs.apply(change.resume(snapshot, CatchUp.ALL, store.now), store.now)


async def anything_left(store: Store) -> bool:
    while await store.jobs.unfinished(limit=1):
        await Finishing(store.engine, store.clock).run_once()
    return bool((await store.lists.runs(RunQuery(states=LIVE, limit=1))).items)


async def drain(store: Store) -> None:
    """Workers until nothing waits: a lane that stands still would stop them.

    A cancel that a run escaped by being handed back leaves it to whoever finishes such jobs.
    """
    store.advance(HOUR)
    worker = await store.worker()
    while await anything_left(store):
        runs = await store.claim_due(worker)
        assert runs, "a lane stands still"
        await store.succeed(worker, *runs)


async def test_lanes_and_gates_touched_in_any_order_at_once(place: Place) -> None:
    """Catches a deadlock that surfaces, a member that is lost, and a lane that nobody tends."""
    await quick_to_see_deadlocks(place)
    stores = [await place.store(pool_size=6) for _ in range(2)]
    crowds = [Crowd(stores[n % 2], seed=n) for n in range(8)]

    async with asyncio.TaskGroup() as acting:
        for crowd in crowds:
            acting.create_task(crowd.act(times=40))

    await drain(stores[0])
    await stores[0].check_counts()


# --------------------------------------------------------------------------------- a deadlock that could not be avoided


async def end_of_the_circle(place: Place, call: Call, theirs: str, ours: str) -> Any:
    """Another session holds `theirs`, which the call wants, and asks for `ours`, which the call has: the call loses."""
    async with place.holding(theirs) as other:
        await other.execute("set local deadlock_timeout = '10 s'")
        calling = asyncio.ensure_future(call())
        await eventually(place.waiting_for_a_lock)
        await other.execute(ours)
    return await calling


async def test_a_transaction_that_lost_a_deadlock_is_repeated(place: Place) -> None:
    await quick_to_see_deadlocks(place, after="1 s")
    store = await place.store()
    worker = await store.worker()
    run = await store.claim_one(worker, await store.one_shot(group="g"))

    settled = await end_of_the_circle(
        place, lambda: store.succeed(worker, run), "select from lanes for update", "select from running for update"
    )

    assert settled.lost == frozenset()
    assert await store.state(run.run_id) is State.SUCCEEDED
    await store.check_counts()


async def test_a_statement_that_lost_a_deadlock_is_repeated(place: Place) -> None:
    """Catches a driver's error from the verbs that need but one statement."""
    await quick_to_see_deadlocks(place, after="1 s")
    store = await place.store()
    worker = await store.worker()
    dead = await store.claim(worker, *await store.one_shots(2))
    await store.fail(worker, *dead, retry=False)
    row = "select from dead where run_id = '{}' for update"
    first, second = sorted(run.run_id for run in dead)

    discarded = await end_of_the_circle(
        place, lambda: store.history.discard(None, [first, second]), row.format(second), row.format(first)
    )

    assert discarded == {first, second}


# --------------------------------------------------------------------------------------------------- the order of locks


async def free_while_waiting(place: Place, call: Call, held: str, probe: str) -> None:
    """While the call waits for the row that is held, it has not locked the one that comes later in the order."""
    async with place.holding(held):
        calling = asyncio.ensure_future(call())
        await eventually(place.waiting_for_a_lock)
        assert len(await place.session.fetch(f"{probe} for update nowait")) == 1
    await calling


async def test_who_cancels_a_job_waits_for_its_runs_without_holding_their_lane(place: Place) -> None:
    """Who settles has the run and wants the lane: the other way round, each cancel of a busy job could stop a batch."""
    store = await place.store()
    job_id = await store.recurring(every=MINUTE)
    await store.plan(ahead=3 * MINUTE)
    store.advance(MINUTE)
    await store.claim_due(await store.worker())

    await free_while_waiting(
        place,
        lambda: store.jobs.cancel(None, job_id, store.now),
        "select from running for update",
        "select from lanes",
    )

    assert [run.state for run in await store.runs(job_id=job_id)].count(State.RUNNING) == 1
    assert only([run.cancel_at for run in await store.runs(states={State.RUNNING})]) == store.now


async def test_who_settles_waits_for_a_gate_without_holding_the_next_in_the_lane(place: Place) -> None:
    """Who tends a gate has it and wants its members, of which the next in the lane may be one."""
    store = await place.store()
    worker = await store.worker()
    first = await store.claim_one(worker, await store.one_shot(group="g"))
    second = await store.one_shot(1, group="g", gate=("c", 1))
    gate = await place.value("select gate from waiting")

    await free_while_waiting(
        place,
        lambda: store.succeed(worker, first),
        f"select from lanes where lane = {gate} for update",
        "select from waiting",
    )

    store.advance(1)
    assert await store.claimable() == [second]


async def orphans(store: Store, *how: dict[str, Any]) -> None:
    """Runs whose workers are gone, one each. They are reaped in this order."""
    for one in how:
        store.advance(1)
        worker = await store.worker()
        await store.claim_one(worker, await store.one_shot(**one))
        await store.fleet.leave(worker)


async def test_who_reaps_several_workers_waits_for_a_gate_without_holding_a_later_one(place: Place) -> None:
    """Catches gates that are tended worker by worker: with somebody who settles a run of each it would be a circle."""
    store = await place.store()
    keys = sorted("ab", key=lambda key: lane_key("gate", store.uid, key))
    await orphans(store, {"gate": (keys[1], 1)}, {"gate": (keys[0], 1)})
    first, second = (lane_key("gate", store.uid, key) for key in keys)

    await free_while_waiting(
        place,
        store.recover_runs,
        f"select from lanes where lane = {first} for update",
        f"select from lanes where lane = {second}",
    )

    assert await place.value("select count(*) from waiting") == 2


async def test_who_reaps_several_workers_waits_for_a_gate_without_holding_a_meter(place: Place) -> None:
    store = await place.store()
    metered = await store.one_shot(rate=Rate(limit=1, per=Duration(HOUR)))
    await store.permit()
    worker = await store.worker()
    await store.claim_one(worker, metered)
    await store.fleet.leave(worker)
    await orphans(store, {"gate": ("c", 1)})

    await free_while_waiting(place, store.recover_runs, "select from lanes for update", "select from meters")

    assert await place.value("select count(*) from waiting") == 2


async def test_who_reaps_waits_for_a_definition_without_holding_its_runs(place: Place) -> None:
    """Who cancels a job has its definition, and wants what runs of it."""
    store = await place.store()
    await store.recurring(every=MINUTE)
    await store.plan(ahead=MINUTE)
    store.advance(MINUTE)
    worker = await store.worker()
    run = only(await store.claim_due(worker))
    await store.fleet.leave(worker)

    await free_while_waiting(place, store.recover_runs, "select from jobs for update", "select from running")

    assert await store.state(run.run_id) is State.WAITING


async def test_who_edits_waits_for_the_planner_without_holding_the_definition(place: Place) -> None:
    """Who plans the last run of a job has the cursor and wants to mark the definition as finished."""
    store = await place.store()
    job_id = await store.recurring(every=MINUTE)

    await free_while_waiting(
        place, lambda: store.pause(job_id), "select from agenda for update", "select job_id from jobs"
    )

    assert (await store.snapshot(job_id)).job.status is JobStatus.PAUSED


@pytest.mark.parametrize("verb", ["create", "settle", "hand back", "cancel", "cancel job", "withdraw"])
async def test_who_touches_a_lane_waits_for_whoever_has_it(place: Place, verb: str) -> None:
    """Catches lanes that are tended without being locked: two at a time would each let somebody in."""
    store = await place.store()
    worker = await store.worker()
    run = await store.claim_one(worker, await store.one_shot(group="g"))
    held = await store.one_shot(group="g")
    snapshot = await store.snapshot(job_of(held))
    calls: dict[str, Call] = {
        "create": lambda: store.one_shot(group="g"),
        "settle": lambda: store.succeed(worker, run),
        "hand back": lambda: store.hand_back(worker, run),
        "cancel": lambda: store.running.cancel(None, held, store.now),
        "cancel job": lambda: store.jobs.cancel(None, job_of(held), store.now),
        "withdraw": lambda: store.jobs.apply(change.pause(snapshot, store.now), store.now),
    }
    async with place.holding("select from lanes for update"):
        calling = asyncio.ensure_future(calls[verb]())
        await eventually(place.waiting_for_a_lock)
    await calling


async def test_who_plans_sees_an_edit_that_came_before_the_lock(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a cursor as an edit left it, planned by the definition before that edit."""
    store, other = await place.store(), await place.store()
    job_id = await store.recurring(every=MINUTE, task="old")
    barrier = "where pg_advisory_xact_lock_shared(42) is not null and "
    monkeypatch.setitem(planning._SQL, "plan_take", planning._SQL["plan_take"].replace("where ", barrier, 1))
    async with place.holding("select pg_advisory_xact_lock(42)"):
        plan = asyncio.create_task(store.plan(ahead=MINUTE))
        await eventually(place.waiting_for_a_lock)  # it has looked, and locked nothing yet
        assert await other.edit(job_id, task="new")
    await plan
    monkeypatch.undo()
    await store.plan(ahead=MINUTE)

    store.advance(MINUTE)
    run = only(await store.claim_due(await store.worker()))
    assert decode_spec(run.spec).task == "new"


# -------------------------------------------------------------------------------------------------------------- tending


async def test_a_lane_is_not_forgotten_under_a_member_that_is_being_added(place: Place) -> None:
    """Catches a gate whose width is lost: made again by whoever leaves it, it would admit nobody ever."""
    store = await place.store()
    await store.running.cancel(None, await store.one_shot(gate=("c", 2)), store.now)
    async with place.holding("update lanes set width = width") as other:
        maintenance = asyncio.create_task(store.maintenance.maintain(store.now, KEEP))
        await eventually(lambda: done_or_waiting(place, maintenance))
        await other.execute(
            "insert into waiting (run_id, job_id, uid, class_id, due, wanted, trigger, job_version, gate)"
            " select gen_random_uuid(), gen_random_uuid(), 1, 1, 0, 0, 0, 1, lane from lanes"
        )
    await maintenance

    assert await place.value("select width from lanes") == 2


async def done_or_waiting(place: Place, task: asyncio.Task[int]) -> bool:
    return task.done() or bool(await place.waiting_for_a_lock())


async def test_a_definition_is_kept_as_long_as_a_run_needs_it(place: Place) -> None:
    """Catches a run planned long ago that is claimed and then cannot be handed out."""
    store = await place.store()
    job_id = await store.recurring(every=MINUTE, task="old", max_retries=3)
    await store.plan(ahead=MINUTE)
    store.advance(MINUTE)
    worker = await store.worker()
    await store.fail(worker, only(await store.claim_due(worker)))
    await store.edit(job_id, task="new")
    store.advance(2 * KEEP)

    await store.maintenance.maintain(store.now, KEEP)

    again = await store.claim_due(await store.worker())
    assert "old" in [decode_spec(run.spec).task for run in again]


async def test_classes_appear_in_the_order_of_their_numbers(place: Place) -> None:
    """One that is being made holds up those with higher numbers: who has seen those would never ask for it."""
    store = await place.store()
    made, commit = asyncio.Event(), asyncio.Event()

    async def slowly(connection: Connection) -> None:
        await classes_for(connection, {ClassKey("first"): None}, 0)
        made.set()
        await commit.wait()

    engine = outside.postgres_of(store)
    first = asyncio.create_task(engine._store.write(slowly))
    await made.wait()
    second = asyncio.create_task(store.jobs.intern([ClassKey("second")]))
    await eventually(lambda: place.value("select count(*) from pg_locks where locktype = 'advisory' and not granted"))
    assert await store.jobs.classes() == {}

    commit.set()
    await asyncio.gather(first, second)
    assert [key.task for key in (await store.jobs.classes()).values()] == ["first", "second"]
