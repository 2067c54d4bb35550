"""Hints by LISTEN and NOTIFY: few, small, heard again after a gap, and never in anybody's way."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter

import asyncpg
import pytest
from tests.engines import test_postgres_outside as outside
from tests.engines.test_postgres_limits import stopped
from tests.engines.test_postgres_outside import PATIENCE, Place, eventually, postgres_of

from oncue.domain.instants import SECOND, Duration
from oncue.domain.load import Load, show_load
from oncue.engines.port import Hint, Topic
from oncue.engines.postgres import signals
from oncue.engines.postgres.connecting import Place as Place_
from oncue.testing.postgres import PrivatePostgres
from oncue_conformance.store import Store

place = outside.place

CHANNEL = "oncue"  # of a store in the schema public: what changed
RUNS, JOBS, W = (Place_("public").channel_of(what) for what in ("runs", "jobs", "w"))
CANCELS = Place_("public").channel_of("cancel_requests")
LISTENING = [Hint(topic) for topic in sorted(Topic)]


async def some(hints: AsyncIterator[Hint], n: int) -> list[Hint]:
    async with asyncio.timeout(PATIENCE):
        return [await anext(hints) for _ in range(n)]


@asynccontextmanager
async def payloads(place: Place) -> AsyncIterator[list[str]]:
    """What travels, as anybody can hear it."""
    heard: list[str] = []
    session = await asyncpg.connect(place.url)
    for channel in (CHANNEL, RUNS, JOBS, CANCELS, W):
        await session.add_listener(channel, lambda *said: heard.append(str(said[-1])))
    try:
        yield heard
    finally:
        session.terminate()


async def refuse_connections(place: Place) -> None:
    """As good as down, for this database. Whoever is connected stays."""
    other = await asyncpg.connect(place.url.replace(place.url.rsplit("/", 1)[1], "postgres"))
    await other.execute(f'alter database "{await place.value("select current_database()")}" allow_connections false')
    await other.close()


async def end_all(place: Place) -> None:
    await place.session.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and"
        " datname = current_database() and application_name like 'oncue%'"
    )


# ------------------------------------------------------------------------------------------------------------ listening


async def test_what_one_engine_says_another_hears(place: Place) -> None:
    sender, listener = await place.store(), await place.store()
    hints = listener.signals.listen()
    assert await some(hints, len(Topic)) == LISTENING  # said only once it listens: nothing is missed from here on

    await sender.signals.send([Hint(Topic.RUNS, due=sender.now), Hint(Topic.CHANGED, target="7")])

    assert await some(hints, 2) == [Hint(Topic.RUNS, due=sender.now), Hint(Topic.CHANGED, target="7")]


async def test_runs_are_told_to_a_worker_with_room_and_to_no_other(place: Place) -> None:
    """Catches a fleet in which every hint wakes everybody."""
    store = await place.store()
    run_id = await store.one_shot()
    [run] = await store.running.peek(range(1, 9), store.at(-SECOND), store.now, 9)
    able, full, other = [await store.worker() for _ in range(3)]
    await store.fleet.beat(able, store.now, classes=[run.class_id])
    await store.fleet.beat(full, store.now, classes=[run.class_id], load=show_load(Load(full=(run.class_id,))))
    listening = {who: store.signals.listen({Topic.RUNS}, who) for who in (able, full, other)}
    for hints in listening.values():
        await some(hints, 1)

    await store.signals.send([Hint(Topic.RUNS, run.due, runs=(run,))])
    assert await some(listening[able], 1) == [Hint(Topic.RUNS, run.due, str(able), (run,))]
    assert run.run_id == run_id
    await store.signals.pass_on(Hint(Topic.RUNS, run.due, runs=(run,)), full)
    assert await some(listening[able], 1) == [Hint(Topic.RUNS, run.due, str(able), (run,))]
    await store.signals.pass_on(Hint(Topic.RUNS, run.due, runs=(run,)), able)  # the only one with room
    await store.signals.send([Hint(Topic.RUNS)])

    assert [await some(listening[who], 1) for who in (able, full, other)] == [[Hint(Topic.RUNS)]] * 3


async def test_after_a_gap_every_topic_is_hinted_once(place: Place) -> None:
    """Catches a listener that is deaf after its connection was cut (oban #1499)."""
    store = await place.store()
    hints = store.signals.listen()
    await some(hints, len(Topic))
    for _ in range(3):
        await end_all(place)
        assert await some(hints, len(Topic)) == LISTENING
    await store.signals.send([Hint(Topic.JOBS, due=store.now)])
    await store.signals.send([Hint(Topic.JOBS, due=store.now)])

    assert await some(hints, 1) == [Hint(Topic.JOBS, due=store.now)]


async def test_what_others_say_on_the_channel_is_passed_over(place: Place) -> None:
    store = await place.store()
    hints = store.signals.listen()
    await some(hints, len(Topic))
    for nonsense in ("", "[]", '[{"topic": "none"}]', '{"topic": "runs"}', "\u2028"):
        for channel in (CHANNEL, RUNS):
            await place.session.execute("select pg_notify($1, $2)", channel, nonsense)
    await store.signals.send([Hint(Topic.RUNS)])

    assert await some(hints, 1) == [Hint(Topic.RUNS)]


# -------------------------------------------------------------------------------------------------------------- sending


async def test_thousands_of_hints_travel_as_a_few(place: Place) -> None:
    """Catches a notification per hint: each takes a lock that all commits with one wait for."""
    store = await place.store()
    async with payloads(place) as heard:
        for n in range(5_000):
            await store.signals.send(
                [Hint(Topic.RUNS, due=store.at(5_000 - n)), Hint(Topic.CHANGED, target=f"{n % 20}")]
            )
        await eventually(lambda: said(heard, 21))

    assert len(heard) <= 4
    assert Hint(Topic.RUNS, due=store.at(1)) in decoded(heard)


async def said(heard: list[str], n: int) -> bool:
    return len(decoded(heard)) >= n


def decoded(heard: list[str]) -> list[Hint]:
    return [hint for text in heard for hint in signals._decode(text)]


async def test_long_targets_travel_in_pieces_and_the_longest_not_at_all(place: Place) -> None:
    """Catches "payload string too long", which would end sending for good. Without a target it means everybody."""
    store = await place.store()
    targets = [f"{n:02}" + "ü" * 1_500 for n in range(20)]
    async with payloads(place) as heard:
        await store.signals.send([Hint(Topic.CHANGED, target=target) for target in targets])
        await store.signals.send([Hint(Topic.CHANGED, target="x" * 9_000)])
        await eventually(lambda: said(heard, 21))

    assert max(len(text.encode()) for text in heard) < 8_000
    assert decoded(heard) == [*(Hint(Topic.CHANGED, target=target) for target in targets), Hint(Topic.CHANGED)]


@pytest.mark.parametrize("size", range(7_850, 7_960, 10))
def test_no_size_is_just_too_long(size: int) -> None:
    for n in (1, 2, 3):
        hints = [Hint(Topic.CHANGED, target=f"{i}" + "x" * (size // n)) for i in range(n)]
        texts = list(signals._packed(hints))

        assert max(len(text.encode()) for text in texts) < 8_000
        assert len(decoded(texts)) == n


async def test_sending_never_raises_while_the_server_is_away(place: Place) -> None:
    """And goes on when it is back. Catches an error that only shows when the engine is closed."""
    store = await place.store(store_timeout=Duration(5 * SECOND))
    async with payloads(place) as heard:
        await refuse_connections(place)
        await end_all(place)
        for _ in range(3):
            await store.signals.send([Hint(Topic.RUNS, due=store.now)])
            assert not flushing(store).done(), "it waited"
            await flushed(store)
        assert heard == []
        await place.session.execute(
            "update pg_database set datallowconn = true where datname = current_database()",
        )
        await store.signals.send([Hint(Topic.JOBS)])
        await eventually(lambda: said(heard, 1))

    assert decoded(heard) == [Hint(Topic.JOBS)]


def flushing(store: Store) -> asyncio.Task[None]:
    task = postgres_of(store).signals._flushing
    assert task is not None
    return task


async def flushed(store: Store) -> None:
    await asyncio.wait_for(flushing(store), PATIENCE)


async def test_the_last_words_are_said(place: Place) -> None:
    """Catches hints of a process that hands its runs back and goes."""
    store = await place.store()
    async with payloads(place) as heard:
        await store.signals.send([Hint(Topic.RUNS)])
        await store.engine.close()
        await eventually(lambda: said(heard, 1))


# -------------------------------------------------------------------------------------------------------------- closing


async def test_closing_ends_whoever_listens(place: Place) -> None:
    store = await place.store()
    hints = store.signals.listen()
    await some(hints, len(Topic))
    waiting = asyncio.ensure_future(anext(hints, None))
    await store.engine.close()

    assert await asyncio.wait_for(waiting, PATIENCE) is None
    assert await anext(store.signals.listen(), None) is None
    await eventually(lambda: nobody_listens(place))


async def nobody_listens(place: Place) -> bool:
    return not await place.backends(name="oncue signals")


async def test_closing_ends_whoever_waits_for_a_server_that_is_away(place: Place) -> None:
    store = await place.store()
    hints = store.signals.listen()
    await some(hints, len(Topic))
    await refuse_connections(place)
    await end_all(place)
    waiting = asyncio.ensure_future(anext(hints, None))
    await eventually(lambda: nobody_listens(place))
    await store.engine.close()

    assert await asyncio.wait_for(waiting, PATIENCE) is None


async def test_a_server_that_says_nothing_does_not_keep_us_from_closing(
    place: Place, postgres_server: PrivatePostgres
) -> None:
    """Catches a close that waits as long as a call may take."""
    if not postgres_server.ours:
        pytest.skip("its processes are not ours to stop")
    store = await place.store(store_timeout=Duration(30 * SECOND), pool_size=1)
    hints = store.signals.listen()
    await some(hints, len(Topic))
    with stopped([*await place.backends(), *await place.backends(name="oncue signals")]):
        await store.signals.send([Hint(Topic.RUNS)])
        began = perf_counter()
        await store.engine.close()
        took = perf_counter() - began

    assert took < 6
