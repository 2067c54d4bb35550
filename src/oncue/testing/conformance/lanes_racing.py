"""Lanes under load: creators, workers and cancellers at once, from two processes. Overlap is observed from outside."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict

from msgspec.structs import replace

from oncue.domain.ids import LaneKey, RunId
from oncue.domain.instants import MINUTE, SECOND, Instant
from oncue.domain.run import Claimed, State
from oncue.testing.conformance.store import Store


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
