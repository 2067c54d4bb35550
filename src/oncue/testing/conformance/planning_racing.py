"""Planning under load: several schedulers, an editor and a worker at once, from two processes."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress

from oncue.domain.errors import StoreUnavailable
from oncue.domain.ids import JobId
from oncue.domain.instants import MINUTE, SECOND, Instant
from oncue.domain.policy import Overlap
from oncue.engines.port import Count
from oncue.testing.conformance.store import Store, meanwhile, nominals


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
