"""Lanes under load: creators, workers and cancellers at once, from two processes. Overlap is observed from outside.

Planning under load: several schedulers, an editor and a worker at once, from two processes.

Rates under load: several schedulers grant starts at once, while all other processes continue.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from contextlib import suppress

from msgspec.structs import replace

from oncue.domain.errors import StoreUnavailable
from oncue.domain.ids import JobId, LaneKey, RunId
from oncue.domain.instants import HOUR, MINUTE, SECOND, Instant
from oncue.domain.policy import Overlap
from oncue.domain.run import Claimed, State
from oncue.engines.port import Count
from oncue_conformance.rates import rate
from oncue_conformance.store import Store, meanwhile, nominals

# ---------------------------------------------------------------------------------------------------------------- lanes


class Watch:
    """Records which run is where: a start once the claim was answered, an end before the settle is sent."""

    def __init__(self, width: int = 1) -> None:
        self.width = width
        self.going: Counter[LaneKey] = Counter()
        self.started: dict[LaneKey, list[tuple[Instant, RunId]]] = defaultdict(list)
        self.overlaps: list[RunId] = []
        self.ended = 0

    def start(self, run: Claimed) -> None:
        lane = run.lane if run.lane is not None else run.gate
        assert lane is not None
        self.going[lane] += 1
        if self.going[lane] > self.width:
            self.overlaps.append(run.run_id)
        self.started[lane].append((run.wanted, run.run_id))

    def end(self, run: Claimed) -> None:
        lane = run.lane if run.lane is not None else run.gate
        assert lane is not None
        self.going[lane] -= 1


async def work(store: Store, watch: Watch, total: int, retries: float = 0.0) -> None:
    """A worker that runs until all are done; some runs fail the first time."""
    worker = await store.worker()
    idle = 0
    while watch.ended < total:
        ready = await store.claimable(limit=50)
        runs = await store.claim(worker, *store.chance.sample(ready, min(5, len(ready))))
        idle = 0 if runs else idle + 1
        assert idle < 2_000, f"stuck: {watch.ended} of {total} are done"
        for run in runs:
            watch.start(run)
        await asyncio.sleep(0)
        again = [run for run in runs if run.failures == 0 and store.chance.random() < retries]
        for run in runs:
            watch.end(run)
        await store.settle(worker, *(replace(store.failure(worker, run), due=store.now) for run in again))
        await store.succeed(worker, *(run for run in runs if run not in again))
        watch.ended += len(runs) - len(again)


async def test_members_made_before_run_in_order_and_never_together(store: Store) -> None:
    """Three creators in random order, then three workers, some attempts failing."""
    stores = [store, await store.second()]
    plan = [(due, f"g{lane}") for due in range(8) for lane in range(6)]
    store.chance.shuffle(plan)
    await asyncio.gather(*(create_all(stores[n % 2], plan[n::3]) for n in range(3)))
    watch = Watch()

    await asyncio.gather(*(work(stores[n % 2], watch, len(plan), retries=0.2) for n in range(3)))

    assert watch.overlaps == []
    for started in watch.started.values():
        assert started == sorted(started)  # a retry starts again in its position
    await store.check_counts()


async def create_all(store: Store, plan: list[tuple[int, str]]) -> None:
    for due, group in plan:
        await store.one_shot(-MINUTE + due * SECOND, group=group)


async def test_creators_and_workers_at_once_never_overlap_and_leave_nobody_stuck(store: Store) -> None:
    stores = [store, await store.second()]
    plan = [(due, f"g{lane}") for due in range(25) for lane in range(4)]
    store.chance.shuffle(plan)
    watch = Watch()

    await asyncio.gather(
        *(create_all(stores[n % 2], plan[n::3]) for n in range(3)),
        *(work(stores[n % 2], watch, len(plan), retries=0.1) for n in range(4)),
    )

    assert watch.overlaps == []
    assert await store.claimable() == []
    await store.check_counts()


async def test_of_two_arrivals_at_once_the_earlier_is_admitted(store: Store) -> None:
    """Neither transaction sees the other before it is committed: they have to take turns."""
    other = await store.second()

    for _ in range(20):
        later, earlier = await asyncio.gather(store.one_shot(group="g"), other.one_shot(-SECOND, group="g"))

        assert await store.claimable() == [earlier]
        for run_id in (earlier, later):
            await store.running.cancel(None, run_id, store.now)


async def test_an_earlier_arrival_or_the_claim_of_the_head_comes_first(store: Store) -> None:
    """In either order, one of the two has the lane: the claim begins a little later each time than the arrival."""
    other = await store.second()
    worker = await other.worker()

    async def claim_after_looking(times: int, head: RunId) -> list[Claimed]:
        for _ in range(times):
            await other.running.held_by(worker, [])
        return await other.claim(worker, head)

    for round_number in range(40):
        group = f"g{round_number}"
        head = await store.one_shot(group=group)
        earlier, claimed = await asyncio.gather(
            store.one_shot(-SECOND, group=group), claim_after_looking(round_number % 20, head)
        )

        assert (earlier in await store.claimable()) is (claimed == [])
        await store.running.cancel(None, earlier, store.now)
        await other.succeed(worker, *claimed)
        await store.running.cancel(None, head, store.now)


async def test_a_gate_is_never_wider_than_it_is(store: Store) -> None:
    stores = [store, await store.second()]
    watch = Watch(width=3)

    async def create(n: int) -> None:
        for _ in range(30):
            await stores[n % 2].one_shot(gate=("c", 3))

    await asyncio.gather(
        *(create(n) for n in range(2)), *(work(stores[n % 2], watch, 60, retries=0.1) for n in range(4))
    )

    assert watch.overlaps == []


async def test_cancelling_members_while_they_run_leaves_nobody_stuck(store: Store) -> None:
    stores = [store, await store.second()]
    runs = [run for i in range(4) for run in await store.one_shots(15, due=-MINUTE, apart=1, group=f"g{i}")]
    watch = Watch()
    stopped: list[RunId] = []

    async def cancel(n: int) -> None:
        for run_id in store.chance.sample(runs, len(runs))[:20]:
            answer = await stores[n].running.cancel(None, run_id, store.now)
            assert answer is not None
            stopped.extend(answer.stopped)
            watch.ended += len(answer.stopped)

    await asyncio.gather(cancel(0), cancel(1), *(work(stores[n % 2], watch, len(runs)) for n in range(2)))

    assert watch.overlaps == []
    assert len(stopped) == len(set(stopped))
    assert {await store.state(run_id) for run_id in stopped} <= {State.CANCELLED}
    assert not {run_id for started in watch.started.values() for _, run_id in started} & set(stopped)
    await store.check_counts()


# ------------------------------------------------------------------------------------------------------------- planning


async def test_many_planners_at_once_plan_each_occurrence_once(store: Store) -> None:
    """P2, from two processes, two schedulers each."""
    stores = [store, await store.second()]
    jobs = [await store.recurring(every=MINUTE) for _ in range(30)]

    async def planner(one: Store) -> int:
        made = 0
        for ahead in range(1, 6):
            while (done := await one.plan(ahead * MINUTE, limit=4)).jobs:
                made += done.runs
        return made

    made = await asyncio.gather(*(planner(stores[n % 2]) for n in range(4)))
    await store.plan_all(ahead=5 * MINUTE)  # the jobs that each left to the other, which had just finished

    assert sum(made) <= 150
    for job_id in jobs:
        assert nominals(await store.runs(job_id=job_id)) == [store.at(i * MINUTE) for i in range(1, 6)]
    assert (await store.counts())[Count.CREATED] == 150


async def test_planners_an_editor_and_a_worker_at_once_miss_and_double_nothing(store: Store) -> None:
    """Runs leave as soon as they are created, so no unique key can save a scheduler that forgets what it planned."""
    stores = [store, await store.second()]
    jobs = [await store.recurring(every=SECOND, overlap=Overlap.ALLOW) for _ in range(8)]
    began, seconds = store.now, 12
    started: Counter[tuple[JobId, Instant | None]] = Counter()
    over = False

    async def planner(n: int) -> None:
        while not over:
            with suppress(StoreUnavailable):
                await stores[n % 2].plan(limit=3)
            await asyncio.sleep(0)

    async def editor() -> None:
        while not over:
            await store.edit(store.chance.choice(jobs), payload=store.chance.randbytes(4).hex().encode())
            await asyncio.sleep(0)

    async def run_all_due(wanted: int) -> None:
        for _ in range(200):
            runs = await stores[1].claim_due(worker)
            started.update((run.job_id, run.nominal) for run in runs)
            await stores[1].succeed(worker, *runs)
            if started.total() >= wanted:
                break

    worker = await store.worker()
    async with meanwhile(planner(0), planner(1), planner(2), editor()) as others:
        for i in range(seconds):
            store.advance(SECOND)
            await run_all_due((i + 1) * len(jobs))
        over = True
        await asyncio.gather(*others)

    wanted = {(job_id, Instant(began + i * SECOND)) for job_id in jobs for i in range(1, seconds + 1)}
    assert {occurrence for occurrence, n in started.items() if n > 1} == set()
    assert set(started) == wanted
    await store.check_counts()


# ---------------------------------------------------------------------------------------------------------------- rates


async def test_several_schedulers_together_grant_no_more_than_the_rate_allows(store: Store) -> None:
    stores = [store, await store.second()]
    for turn in range(5):
        keys = [f"{turn} {n}" for n in range(3)]
        for key in keys:
            await store.one_shots(20, rate=rate(3, HOUR, key))

        answers = await asyncio.gather(*(stores[n % 2].permit(limit=100) for n in range(6)))

        assert sum(answer.runs for answer in answers) == 3 * len(keys)


async def test_granting_while_everybody_is_at_work_leaves_nobody_waiting(store: Store) -> None:
    """Creators, workers, cancellers and two schedulers at once; in the end all runs that are left can start."""
    stores = [store, await store.second()]
    fast = rate(1_000, SECOND, "k")
    made: list[RunId] = []

    async def create(n: int) -> None:
        for i in range(25):
            run_id = await stores[n].one_shot(-SECOND + i, rate=fast, group=f"g{i % 3}" if i % 2 else None)
            made.append(run_id)

    async def work(n: int) -> None:
        worker = await stores[n].worker()
        for _ in range(15):
            await stores[n].permit()
            runs = await stores[n].claim_due(worker, limit=3)
            await stores[n].fail(worker, *runs[:1])
            await stores[n].succeed(worker, *runs[1:])

    async def meddle(n: int) -> None:
        for run_id in list(made)[n::7]:
            await stores[n].running.cancel(None, run_id, store.now)

    await asyncio.gather(create(0), create(1), work(0), work(1))
    await asyncio.gather(meddle(0), meddle(1), work(0), work(1))
    store.advance(HOUR)
    worker = await store.worker()
    while (await store.permit()).runs or await store.claimable():
        await store.succeed(worker, *await store.claim_due(worker))

    assert {await store.state(run_id) for run_id in made} <= {State.SUCCEEDED, State.CANCELLED}
    await store.check_counts()
