"""Rates under load: several schedulers grant starts at once, while all other processes continue."""

from __future__ import annotations

import asyncio

from oncue.domain.ids import RunId
from oncue.domain.instants import HOUR, SECOND
from oncue.domain.run import State
from oncue.testing.conformance.rates import rate
from oncue.testing.conformance.store import Store


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
