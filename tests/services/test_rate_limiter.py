"""RateLimiter: never more starts than a rate allows, none later than it has to be."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oncue.clock import SystemClock
from oncue.domain.ids import ClassId, RunId
from oncue.domain.instants import HOUR, MILLISECOND, MINUTE, SECOND, Duration, Instant
from oncue.domain.job import Rate
from oncue.engines.port import Hint, Topic
from oncue.metrics.exposed import Exposed
from oncue.process import parts
from oncue.services import rate_limiter
from oncue.services.loop import Loop
from oncue.services.rate_limiter import AHEAD, LONGEST, MIN_PAUSE, Nudge, RateLimiter
from oncue.settings import Settings
from oncue.testing.clock import FakeClock
from oncue.testing.conformance import EmptyStore, Store
from oncue_conformance.store import LIVE

SETTINGS = settings(
    max_examples=settings().max_examples // 4,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
RATES = st.builds(
    Rate,
    limit=st.integers(1, 4),
    per=st.sampled_from([300 * MILLISECOND, SECOND, 2500 * MILLISECOND]).map(Duration),
)
ARRIVALS = st.lists(
    st.tuples(st.integers(0, 4_000).map(lambda ms: ms * MILLISECOND), st.integers(0, 2)), min_size=1, max_size=25
)


def per_second(limit: int) -> Rate:
    return Rate(limit, Duration(SECOND))


# ------------------------------------------------------------------------------------------------------------- one pass


async def test_workers_are_told_of_the_first_start_granted(store: Store, hints: list[Hint]) -> None:
    await store.one_shots(2, due=SECOND // 2, apart=1, rate=per_second(2))

    await RateLimiter(store.engine, store.clock).run_once()

    assert hints == [Hint(Topic.RUNS, due=store.at(SECOND // 2))]


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_clock_that_is_set_back_stops_no_meter(store: Store, restarted: bool) -> None:
    """An hour back: the next start comes a second later, not an hour."""
    worker = await store.worker()
    await store.one_shots(3, rate=per_second(1))
    store.clock.jump(HOUR)
    one = RateLimiter(store.engine, store.clock)
    await one.run_once()
    assert len(await store.claim_due(worker)) == 1
    store.clock.jump(-HOUR)

    if restarted:
        one = RateLimiter(store.engine, store.clock)
    started = 0
    for _ in range(12):
        await store.clock.advance(Duration(SECOND // 4))
        await one.run_once()
        started += len(await store.claim_due(worker))
    assert started == 2


async def test_nobody_is_told_of_nothing(store: Store, hints: list[Hint]) -> None:
    await store.one_shot()
    await store.one_shot(AHEAD + 1, rate=per_second(1))

    await RateLimiter(store.engine, store.clock).run_once()

    assert hints == []


async def test_it_comes_back_when_the_next_start_comes_near(store: Store) -> None:
    service = RateLimiter(store.engine, store.clock)
    assert await service.run_once() == LONGEST  # there is nothing
    await store.one_shot(HOUR, rate=per_second(1))
    assert await service.run_once() == LONGEST

    await store.one_shot(AHEAD + SECOND // 2, rate=per_second(1))
    assert await service.run_once() == SECOND // 2
    store.advance(SECOND // 2 - 1)
    assert await service.run_once() == MIN_PAUSE  # never more often, however close
    store.advance(1)
    assert await service.run_once() == LONGEST


async def test_it_comes_back_at_once_when_there_is_more(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limiter, "BATCH", 3)
    await store.one_shots(5, rate=per_second(10))
    service = RateLimiter(store.engine, store.clock)

    assert await service.run_once() == 0
    assert await service.run_once() == LONGEST
    assert len(await store.claimable()) == 5


# ----------------------------------------------------------------------------------------------------------- properties


def starts_in_order(limit: int, per: int, wanted: Iterable[int]) -> list[int]:
    """When each would start if nothing but the rate were in its way."""
    starts: list[int] = []
    for at in sorted(wanted):
        starts.append(at if len(starts) < limit else max(at, starts[-limit] + per))
    return starts


async def first_due(store: Store) -> Instant | None:
    """Of all that was granted a start and waits for it."""
    found = await store.running.peek(await store.class_ids(), Instant(0), store.at(HOUR), 1)
    return found[0].due if found else None


def too_many(starts: Iterable[int], rate: Rate) -> list[int]:
    """Starts that come less than `per` after the one `limit` before them."""
    at = sorted(starts)
    return [later for earlier, later in zip(at, at[rate.limit :], strict=False) if later - earlier < rate.per]


@SETTINGS
@given(rates=st.lists(RATES, min_size=3, max_size=3), arrivals=ARRIVALS)
async def test_every_run_starts_as_early_as_its_rate_allows_and_in_order(
    empty_store: EmptyStore, rates: list[Rate], arrivals: list[tuple[int, int]]
) -> None:
    """One pass after the other, each exactly when the one before said; what is granted late would start late."""
    async with await Store.on(await empty_store()) as store:
        service, began = RateLimiter(store.engine, store.clock), store.now
        runs = {
            await store.one_shot(after, rate=Rate(rates[key].limit, rates[key].per, str(key))): (after, key)
            for after, key in arrivals
        }
        worker, started = await store.worker(), dict[RunId, int]()
        while len(started) < len(runs):
            assert store.now < began + MINUTE, "some are never granted a start"
            until = store.at(max(await service.run_once(), 1))
            while (due := await first_due(store)) is not None and due <= until:
                store.advance(max(0, due - store.now))
                started |= {run.run_id: run.due - began for run in await store.claim_due(worker)}
            store.advance(until - store.now)
        for key, rate in enumerate(rates):
            mine = sorted((after, started[run_id]) for run_id, (after, of) in runs.items() if of == key)
            assert [start for _, start in mine] == starts_in_order(rate.limit, rate.per, (after for after, _ in mine))


@SETTINGS
@given(
    rates=st.lists(RATES, min_size=3, max_size=3),
    arrivals=ARRIVALS,
    fates=st.lists(st.sampled_from(["succeed", "retry", "hand back", "cancel", "lose"]), min_size=5, max_size=5),
    step=st.sampled_from([170 * MILLISECOND, 600 * MILLISECOND, SECOND, 3 * SECOND]),
)
async def test_there_are_never_more_starts_than_the_rate_allows(
    empty_store: EmptyStore, rates: list[Rate], arrivals: list[tuple[int, int]], fates: list[str], step: int
) -> None:
    """Two schedulers at once, runs that come as time goes by, attempts that fail or are lost: each is a start."""
    async with await Store.on(await empty_store()) as store:
        crowd = Crowd(store, [store, await store.second()], rates, fates)
        began, coming = store.now, sorted(arrivals)
        while coming or await store.runs(states=LIVE):
            assert store.now < began + HOUR, "some are never granted a start"
            while coming and coming[0][0] <= store.now - began + SECOND:
                after, key = coming.pop(0)
                await crowd.create(began + after - store.now, key)
            await crowd.pass_and_work(step if store.now < began + 20 * SECOND else MINUTE)

        for key, rate in enumerate(rates):
            assert too_many((at for at, _, _ in crowd.starts[key]), rate) == []


class Crowd:
    """Schedulers, and a worker that starts what is granted on its instant and lets some fail once."""

    def __init__(self, store: Store, stores: list[Store], rates: list[Rate], fates: list[str]) -> None:
        self.store = store
        self.services = [RateLimiter(one.engine, store.clock) for one in stores]
        self.rates = rates
        self.fates = fates
        self.keys: dict[RunId, int] = {}
        self.starts: dict[int, set[tuple[Instant, RunId, int]]] = defaultdict(set)

    async def create(self, after: int, key: int) -> None:
        rate = Rate(self.rates[key].limit, self.rates[key].per, str(key))
        self.keys[await self.store.one_shot(after, rate=rate)] = key

    async def pass_and_work(self, step: int) -> None:
        """Both schedulers have a pass; until the next one, whatever is due starts on its instant."""
        await asyncio.gather(*(service.run_once() for service in self.services))
        until = self.store.at(step)
        while (due := await first_due(self.store)) is not None and due <= until:
            self.store.advance(max(0, due - self.store.now))
            await self.work()
        self.store.advance(until - self.store.now)

    async def work(self) -> None:
        worker = await self.store.worker()
        for run in await self.store.claim_due(worker):
            self.starts[self.keys[run.run_id]].add((self.store.now, run.run_id, run.attempt))
            fate = "succeed" if run.token > 1 else self.fates[len(self.starts[self.keys[run.run_id]]) % 5]
            if fate == "retry":
                await self.store.fail(worker, run)
            elif fate == "hand back":
                await self.store.hand_back(worker, run)
            elif fate == "cancel":
                await self.store.running.cancel(None, run.run_id, self.store.now)
                await self.store.succeed(worker, run)
            elif fate == "succeed":
                await self.store.succeed(worker, run)
        await self.store.fleet.leave(worker)  # what it still has is lost
        await self.store.recover_runs()


# ------------------------------------------------------------------------------------------------------------- wake-ups


async def rested() -> None:
    """As long as it takes until a nudge has an effect again."""
    done = asyncio.Event()
    asyncio.get_running_loop().call_later(2 * MIN_PAUSE / SECOND, done.set)
    await done.wait()


async def test_many_hints_wake_it_at_once_and_then_once_more() -> None:
    woken: list[None] = []
    clock = FakeClock()
    nudge = Nudge(lambda: woken.append(None), clock)

    for _ in range(100):
        nudge(Hint(Topic.RUNS))
    await clock.advance(Duration(MIN_PAUSE - 1))
    assert len(woken) == 1
    await clock.advance(Duration(1))
    assert len(woken) == 2  # for those that came meanwhile
    await clock.advance(Duration(HOUR))
    assert len(woken) == 2
    nudge(Hint(Topic.RUNS))
    assert len(woken) == 3


async def test_hints_of_what_is_due_later_or_has_no_rate_do_not_wake_it() -> None:
    woken: list[None] = []
    clock = FakeClock()
    nudge = Nudge(lambda: woken.append(None), clock)

    nudge(Hint(Topic.RUNS, due=Instant(clock.now() + AHEAD + 1)))
    nudge(Hint(Topic.RUNS, due=clock.now(), classes=(ClassId(1),)))
    assert woken == []
    nudge(Hint(Topic.RUNS, due=Instant(clock.now() + AHEAD)))
    assert woken == [None]


async def test_a_run_that_is_due_now_is_granted_its_start_on_the_hint(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches a scheduler in which nobody grants, and one that is not woken: here its polls are an hour apart."""
    passes: asyncio.Queue[int] = asyncio.Queue()
    real = store.planning.permit

    async def permit(*how: Any) -> Any:
        answer = await real(*how)
        passes.put_nowait(answer.runs)
        return answer

    monkeypatch.setattr(store.planning, "permit", permit)
    monkeypatch.setattr(rate_limiter, "LONGEST", Duration(HOUR))
    monkeypatch.setattr("oncue.services.loop.LONGEST_WAIT", Duration(HOUR))
    clock = SystemClock()
    store.clock = clock  # type: ignore[assignment]  # real time, as a scheduler has it
    exposed = Exposed(clock)
    async with asyncio.timeout(60), parts.scheduling(store.engine, clock, Settings(), exposed):
        while await passes.get() or not passes.empty():
            pass
        await rested()
        await store.one_shot(rate=per_second(1))
        await store.signals.send([Hint(Topic.RUNS, due=store.now)])
        while not await passes.get():
            pass


async def test_it_is_a_service_like_the_others(store: Store) -> None:
    loop = Loop(RateLimiter(store.engine, store.clock), store.clock)
    running = asyncio.create_task(loop.run())
    run_id = await store.one_shot(rate=per_second(1))
    loop.wake()
    async with asyncio.timeout(60):
        while not await store.claimable():
            await asyncio.sleep(0)
    loop.stop()
    await running

    assert await store.claimable() == [run_id]
