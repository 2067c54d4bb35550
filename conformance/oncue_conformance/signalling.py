"""Signals: hints reach listeners, and never block a caller.

Pings: whether the database is available, in parallel with any other calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from uuid import UUID

from oncue.domain.ids import ClassId, RunId, WorkerId
from oncue.domain.instants import SECOND
from oncue.domain.run import Peeked
from oncue.engines.port import Hint, Topic
from oncue_conformance.store import Store, meanwhile

HINT_TIMEOUT = 10  # seconds before a hint counts as lost; it takes milliseconds


async def heard(hints: AsyncIterator[Hint], wanted: Callable[[Hint], bool]) -> Hint:
    """Return the first wanted hint; skip others, such as those after a reconnect."""
    async with asyncio.timeout(HINT_TIMEOUT):
        async for hint in hints:
            if wanted(hint):
                return hint
    raise AssertionError("the hints ended")


async def repeatedly(store: Store, *hints: Hint) -> None:
    """Hints may be lost, above all while a listener is still connecting: send until a listener receives one."""
    while True:
        await store.signals.send(hints)
        await store.claimable()


async def exchange(sender: Store, listener: Store, hint: Hint, worker: WorkerId | None = None) -> Hint:
    async with meanwhile(repeatedly(sender, hint)):
        return await heard(listener.signals.listen(worker=worker), lambda found: found == hint)


async def test_a_hint_reaches_another_process(store: Store) -> None:
    other = await store.second()

    assert await exchange(store, other, Hint(Topic.RUNS, due=store.now)) == Hint(Topic.RUNS, due=store.now)
    assert await exchange(other, store, Hint(Topic.CHANGED, target="1")) == Hint(Topic.CHANGED, target="1")


async def test_a_hint_names_runs(store: Store) -> None:
    """Whom it reaches is the engine's choice; without a worker that has room it is everybody."""
    other = await store.second()
    runs = tuple(Peeked(RunId(UUID(int=n)), store.at(n), ClassId(n), store.uid) for n in range(1, 61))

    found = await exchange(store, other, Hint(Topic.RUNS, store.now, runs=runs))

    assert found.runs == runs


async def test_a_hint_for_a_worker_reaches_that_one_alone(store: Store) -> None:
    mine, others = WorkerId(UUID(int=1)), WorkerId(UUID(int=2))
    for topic in (Topic.RUNS, Topic.CANCELS):
        for_me, for_others = (Hint(topic, store.now, target=str(one)) for one in (mine, others))
        async with meanwhile(repeatedly(store, for_others, for_me)):
            hints = store.signals.listen({topic}, mine)  # the last round's may still arrive
            found = [await heard(hints, lambda hint: hint.target is not None) for _ in range(3)]

        assert found == [for_me] * 3


async def test_only_the_topics_that_one_follows_are_heard(store: Store) -> None:
    hint = Hint(Topic.JOBS, due=store.now)
    async with meanwhile(repeatedly(store, Hint(Topic.RUNS, due=store.now), Hint(Topic.CHANGED, target="1"), hint)):
        hints = store.signals.listen({Topic.JOBS})
        found = [await heard(hints, lambda hint: True) for _ in range(4)]

    assert found[1:] == [hint] * 3


async def test_runs_that_one_has_no_room_for_are_passed_on_without_an_error(store: Store) -> None:
    me = await store.worker()
    await store.signals.pass_on(Hint(Topic.RUNS, store.now, classes=(ClassId(1),)), me)


async def test_a_hint_reaches_oneself(store: Store) -> None:
    assert await exchange(store, store, Hint(Topic.JOBS, due=store.now)) == Hint(Topic.JOBS, due=store.now)


async def test_everybody_who_listens_hears(store: Store) -> None:
    other = await store.second()
    hint = Hint(Topic.CHANGED, target="1")
    async with meanwhile(repeatedly(other, hint)):
        found = await asyncio.gather(
            *(heard(one.signals.listen(), lambda found: found == hint) for one in (store, store, other))
        )

    assert found == [hint] * 3


async def test_sending_never_raises(store: Store) -> None:
    """Neither without listeners, nor without hints, nor after closing."""
    other = await store.second()
    await store.signals.send([])
    await store.signals.send([Hint(Topic.RUNS, due=store.now)] * 1_000)
    await other.engine.close()

    await other.signals.send([Hint(Topic.RUNS, due=store.now)])
    await store.signals.send([Hint(Topic.CANCELS, target="x" * 5_000)])


async def test_the_store_has_a_time_of_its_own(store: Store) -> None:
    other = await store.second()

    first, second, third = await store.engine.now(), await other.engine.now(), await store.engine.now()

    assert first <= third
    assert abs(second - first) < HINT_TIMEOUT * 1_000_000


async def test_closing_twice_is_no_problem(store: Store) -> None:
    other = await store.second()
    await other.engine.close()
    await other.engine.close()
    assert await store.claimable() == []


# ---------------------------------------------------------------------------------------------------------------- pings


async def test_a_store_that_is_there_says_so(store: Store) -> None:
    await store.engine.ping(SECOND)


async def test_it_says_so_beside_many_calls(store: Store) -> None:
    many = [store.jobs.create([await store.new_one_shot()], store.now) for _ in range(50)]
    looks = [store.accounts.keys() for _ in range(50)]

    await asyncio.gather(*many, *looks, *(store.engine.ping(SECOND) for _ in range(50)))


async def test_a_store_that_keeps_what_is_written_says_so(store: Store) -> None:
    await asyncio.gather(*(store.engine.probe() for _ in range(10)))
