"""Looking ahead where there are thousands of classes: what is read, and that nothing is missed for it."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace
from tests.services.worker_loops import OFFER, Stage

from oncue.domain.errors import StoreUnavailable
from oncue.domain.ids import ClassId, RunId
from oncue.domain.instants import DAY, MILLISECOND, MINUTE, SECOND, Duration
from oncue.domain.placement import ClassKey, Offer
from oncue.engines.port import Engine
from oncue.services.capacity import Capacity
from oncue.services.prefetch import Prefetch
from oncue.tasks import Isolation
from oncue_conformance.store import Store

THOUSANDS = 5_000


class Watched:
    """The engine, with a count of the classes that were read from it, and a say in whether it answers."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.jobs = self
        self.capabilities = engine.capabilities
        self.read = 0
        self.fails = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def classes(self, *asked: Any) -> dict[ClassId, ClassKey]:
        found = await self._engine.jobs.classes(*asked)
        self.read += len(found)
        return found

    @property
    def fleet(self) -> Any:
        if self.fails:
            raise StoreUnavailable(self.fails)
        return self._engine.fleet


def keys(n: int, prefix: str = "q") -> list[ClassKey]:
    return [ClassKey("noop", queue=f"{prefix}{i}") for i in range(n)]


def offer_of(some: Sequence[ClassKey]) -> Offer:
    return replace(OFFER, queues=OFFER.queues | {key.queue for key in some})


def due(prefetch: Prefetch) -> list[RunId]:
    """What it would claim now."""
    room = Capacity(dict.fromkeys(Isolation, 100), OFFER.resources)
    return sorted(prefetch.take(room, 100))


async def looked(store: Store, prefetch: Prefetch, after: int = SECOND) -> list[RunId]:
    store.advance(after)
    await prefetch.look()
    return due(prefetch)


async def test_who_knows_thousands_of_classes_reads_only_the_new_one(store: Store) -> None:
    known, new = keys(THOUSANDS), ClassKey("noop", queue="new")
    await store.jobs.intern(known)
    engine = Watched(store.engine)
    prefetch = Prefetch(engine, store.clock, Stage().tasks, offer_of([*known, new]))  # type: ignore[arg-type] # as one
    await prefetch.look()
    assert (engine.read, len(prefetch.classes)) == (THOUSANDS, THOUSANDS)

    engine.read = 0
    for _ in range(10):
        prefetch.ask(store.now)
        await looked(store, prefetch)
    assert engine.read == 0

    run_id = await store.one_shot(queue="new")
    assert await looked(store, prefetch) == [run_id]
    assert (engine.read, len(prefetch.classes)) == (1, THOUSANDS + 1)


async def test_nothing_is_missed_among_thousands_of_classes(store: Store) -> None:
    """Due before anybody looked, due soon, due in one that is new, in one that was idle for long."""
    known = keys(3_000)
    await store.jobs.intern(known)
    prefetch = Prefetch(store.engine, store.clock, Stage().tasks, offer_of([*known, *keys(5, "new")]))
    before = await store.one_shot(-MINUTE, queue="q17")
    assert await looked(store, prefetch) == [before]
    worker = await store.worker()
    await store.claim(worker, before)

    made = []
    for n in range(5):
        made += [await store.one_shot(100 * MILLISECOND, queue=queue) for queue in (f"q{n}", f"new{n}", "q17")]
        prefetch.ask(store.now)
        await prefetch.look()
        found = await looked(store, prefetch, 200 * MILLISECOND)
        assert found == sorted(made[-3:])
        await store.claim(worker, *found)
    assert await looked(store, prefetch) == []


async def test_a_queue_that_is_resumed_is_read_from_the_beginning(store: Store) -> None:
    """Nobody has told: the worker finds out by itself."""
    prefetch = Prefetch(store.engine, store.clock, Stage().tasks, OFFER)
    await store.one_shots(1, queue="slow", due=DAY)
    await store.fleet.pause_queue("slow", store.now)
    await prefetch.look()
    run_id = await store.one_shot(100 * MILLISECOND, queue="slow")
    assert await looked(store, prefetch) == []

    await store.fleet.resume_queue("slow", store.now)

    assert await looked(store, prefetch) == [run_id]


async def test_a_class_that_came_while_the_store_failed_is_looked_into(store: Store) -> None:
    engine = Watched(store.engine)
    prefetch = Prefetch(engine, store.clock, Stage().tasks, OFFER)  # type: ignore[arg-type] # as one
    await prefetch.look()
    run_id = await store.one_shot()
    engine.fails = "away"
    store.advance(SECOND)
    try:
        await prefetch.look()
    except StoreUnavailable:
        engine.fails = ""

    assert await looked(store, prefetch) == [run_id]


async def test_classes_that_went_are_forgotten_within_minutes_a_page_at_a_time(store: Store) -> None:
    known = keys(2_500)
    await store.jobs.intern(known)
    stays = await store.one_shot(100 * DAY, queue="q2499")
    engine = Watched(store.engine)
    prefetch = Prefetch(engine, store.clock, Stage().tasks, offer_of(known))  # type: ignore[arg-type] # as one
    await prefetch.look()

    async def check() -> list[int]:
        """How many are read in each pass."""
        await store.clock.advance(Duration(10 * MINUTE))
        pages = []
        for _ in range(4):
            engine.read = 0
            await looked(store, prefetch)
            pages.append(engine.read)
        return pages

    assert await check() == [1_000, 1_000, 500, 0]
    assert len(prefetch.classes) == 2_500
    await store.maintenance.roll_up()
    for _ in range(3):
        await store.maintenance.maintain(store.now, Duration(DAY))
        store.advance(DAY)
    assert await check() == [1, 0, 0, 0]
    assert prefetch.classes == ((await store.run(stays)).class_id,)


async def test_where_hints_do_not_arrive_what_is_due_at_once_is_found_within_half_a_second(store: Store) -> None:
    """As behind PgBouncer. Catches a worker that waits for the sweep of those who get hints."""
    engine = Watched(store.engine)
    engine.capabilities = replace(store.engine.capabilities, hints=False)
    first = await store.one_shot()
    prefetch = Prefetch(engine, store.clock, Stage().tasks, OFFER)  # type: ignore[arg-type] # as one
    await prefetch.look()
    new = await store.one_shot()
    found = {run_id for _ in range(10) for run_id in await looked(store, prefetch, 50 * MILLISECOND)}

    assert found == {first, new}


async def test_a_clock_that_is_set_back_stops_no_worker(store: Store) -> None:
    """What it noted for a later time would else wait for that time: an hour without a look, whatever hints come."""
    prefetch = Prefetch(store.engine, store.clock, Stage().tasks, OFFER)
    await store.one_shot(DAY)
    for _ in range(3):
        await looked(store, prefetch)

    store.advance(-60 * MINUTE)

    due_now, soon = await store.one_shot(), await store.one_shot(100 * MILLISECOND)
    await prefetch.look()
    assert await looked(store, prefetch, 200 * MILLISECOND) == sorted([due_now, soon])
    later = await store.one_shot()
    assert later in await looked(store, prefetch)
