"""Connections that died without a word: calls on them end soon, and calls that only take long do not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest
from bench.store_proxy import StoreProxy
from tests.engines import test_postgres_outside as outside
from tests.engines.test_postgres_outside import PATIENCE, Place, answered, eventually, postgres_of

from oncue.domain.instants import MILLISECOND, MINUTE, SECOND, Duration
from oncue.engines.port import Hint, Topic
from oncue.engines.postgres import silence
from oncue_conformance.store import Store

place = outside.place
FAR_OFF = Duration(10 * MINUTE)  # the limit of calls here: nothing that they wait for ends by it
SOON = Duration(50 * MILLISECOND)


class Behind(NamedTuple):
    proxy: StoreProxy
    store: Store


@pytest.fixture
async def behind(place: Place) -> AsyncIterator[Behind]:
    url = urlsplit(place.url)
    proxy = StoreProxy(url.port or 0)
    async with proxy.listening() as port:
        through = url._replace(netloc=f"postgres@127.0.0.1:{port}").geturl()
        store = await place.store(engine=through, store_timeout=FAR_OFF)
        yield Behind(proxy, store)
        await store.close()


async def test_calls_on_connections_that_died_silently_end_soon_and_work_goes_on(behind: Behind) -> None:
    """Catches calls that wait for their time limit, and a pool whose dead connections are found one by one."""
    store = behind.store
    worker, run_id = await store.worker(), await store.one_shot()
    await asyncio.gather(*(store.jobs.classes() for _ in range(4)))
    assert behind.proxy.leave_half_open()

    async with asyncio.timeout(PATIENCE):
        await answered(store.jobs.classes)
        assert len(await asyncio.gather(*(store.jobs.classes() for _ in range(4)))) == 4
        assert [run.run_id for run in await store.claim(worker, run_id)] == [run_id]


@pytest.mark.parametrize(("check", "calls"), [(FAR_OFF, True), (SOON, False)], ids=["told by a call", "by itself"])
async def test_a_listener_whose_connection_died_silently_hears_again(
    behind: Behind, place: Place, check: Duration, calls: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches a listener that is deaf for ever: all hints would be lost."""
    monkeypatch.setattr(silence, "LISTENER_CHECK", check)
    monkeypatch.setattr(silence, "LISTENER_TIMEOUT", Duration(SECOND))
    store, other = behind.store, await place.store()
    hearing = store.signals.listen()
    for _ in Topic:
        await anext(hearing)  # one of each, because it has just connected
    behind.proxy.leave_half_open()

    async def heard() -> None:
        while (await anext(hearing)).target != "a user":
            pass

    listening = asyncio.create_task(heard())

    async def told() -> bool:
        if calls:
            await answered(store.jobs.classes)
        await other.signals.send([Hint(Topic.CHANGED, target="a user")])
        return listening.done()

    await eventually(told)
    await hearing.aclose()


async def test_a_call_that_waits_for_a_lock_is_not_taken_for_dead(
    behind: Behind, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, run_id = await behind.store.worker(), await behind.store.one_shot()
    monkeypatch.setattr(silence, "SILENT_AFTER", SOON)
    asked = _counted(behind.store, monkeypatch)
    async with place.locked("waiting"):
        claiming = asyncio.create_task(behind.store.claim(worker, run_id))
        await eventually(lambda: _true(claiming.done() or len(asked) >= 2))
        assert not claiming.done()

    assert [run.run_id for run in await claiming] == [run_id]


async def test_an_answer_that_is_on_its_way_for_long_is_waited_for(
    behind: Behind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server's session is idle meanwhile, because it has answered: as long as asking takes, an answer may take."""
    store = behind.store
    await store.jobs.classes()
    monkeypatch.setattr(silence, "SILENT_AFTER", SOON)
    calling = asyncio.Event()

    async def idle(pids: list[int]) -> set[int]:
        calling.set()
        await asyncio.sleep(1)
        return set()

    monkeypatch.setattr(postgres_of(store)._store.silences, "_at_work", idle)
    behind.proxy.delay = 1.5

    await store.jobs.classes()

    assert calling.is_set()


def _counted(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[set[int]]:
    """The answers of the server, as they come."""
    answers: list[set[int]] = []
    silences = postgres_of(store)._store.silences
    at_work = silences._at_work

    async def ask(pids: list[int]) -> set[int]:
        answers.append(await at_work(pids))
        return answers[-1]

    monkeypatch.setattr(silences, "_at_work", ask)
    return answers


async def _true(what: bool) -> bool:
    return what
