"""Which client a handle uses: an override, the call's, that of the set, or one of the environment at first use."""

import asyncio
import os
from typing import Any

import httpx2
import pytest
from tests.client.both import J1, Wire, said

from oncue import Tasks
from oncue.client import AsyncClient, Client
from oncue.tasks.clients import Clients

JOB = {"job_id": J1, "task": "hello", "status": "active"}


def async_client(wire: Wire) -> AsyncClient:
    return AsyncClient("http://oncue", "oc_1", transport=httpx2.MockTransport(wire))


def client(wire: Wire) -> Client:
    return Client("http://oncue", "oc_1", transport=httpx2.MockTransport(wire))


def declared(**given: Any) -> tuple[Tasks, Any]:
    tasks = Tasks(**given)

    @tasks.task
    async def hello() -> None: ...

    return tasks, hello


class Both:
    """An override for tests."""

    def __init__(self) -> None:
        self.wire = Wire(said(JOB, 201), said(JOB, 201))
        self.client, self.async_client = client(self.wire), async_client(self.wire)


async def test_the_call_s_own_goes_before_that_of_the_set() -> None:
    of_set, own = Wire(said(JOB, 201)), Wire(said(JOB, 201))
    async with async_client(of_set) as first, async_client(own) as second:
        _, hello = declared(client=first)
        await hello.using(client=second).enqueue()
        assert (len(of_set.requests), len(own.requests)) == (0, 1)
        await hello.enqueue()

    assert (len(of_set.requests), len(own.requests)) == (1, 1)


async def test_an_override_goes_before_all() -> None:
    async with async_client(Wire()) as given:
        tasks, hello = declared(client=given)
        tasks.clients.override = both = Both()
        await hello.using(client=given).enqueue()
        hello.sync.enqueue()
        both.client.close()
        await both.async_client.close()

    assert len(both.wire.requests) == 2


async def test_the_wrong_kind_of_client_is_told() -> None:
    async with async_client(Wire()) as awaited:
        with client(Wire()) as blocking:
            _, hello = declared()
            with pytest.raises(TypeError, match=r"write \.sync before the call"):
                await hello.using(client=blocking).enqueue()
            with pytest.raises(TypeError, match=r"leave out \.sync"):
                hello.using(client=awaited).sync.enqueue()


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Clients made from the environment, in this order."""
    made = list[Any]()

    class Blocking(Client):
        def __init__(self, *_: str | None) -> None:
            super().__init__("http://oncue", "oc_1")
            made.append(self)

    class Awaiting(AsyncClient):
        def __init__(self, *_: str | None) -> None:
            super().__init__("http://oncue", "oc_1")
            self.closed = False
            made.append(self)

        async def close(self) -> None:
            self.closed = True
            await super().close()

    monkeypatch.setattr("oncue.client.Client", Blocking)
    monkeypatch.setattr("oncue.client.AsyncClient", Awaiting)
    return made


def test_declaring_makes_none(environment: list[Any]) -> None:
    declared()

    assert environment == []


def test_there_is_one_for_each_loop_which_ends_with_it(environment: list[Any]) -> None:
    clients = Clients(None)

    async def two() -> None:
        found = await asyncio.gather(clients.for_async(None), clients.for_async(None))
        assert found[0] is found[1]
        assert not environment[-1].closed

    asyncio.run(two())
    asyncio.run(two())
    assert [one.closed for one in environment] == [True, True]


def test_there_is_one_for_each_process(environment: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    clients = Clients(None)

    assert clients.for_sync(None) is clients.for_sync(None)
    monkeypatch.setattr(os, "getpid", lambda: -1)  # as after a fork
    assert clients.for_sync(None) is environment[1]
    for one in environment:
        one.close()


async def test_within_connected_it_is_one(environment: list[Any]) -> None:
    tasks, _ = declared()
    async with tasks.connected() as found:
        assert await tasks.clients.for_async(None) is found
    assert environment == [found]
    assert found.closed  # type: ignore[attr-defined]


async def test_connected_is_for_its_own_event_loop(environment: list[Any]) -> None:
    tasks, _ = declared()

    def elsewhere() -> AsyncClient:
        return asyncio.run(tasks.clients.for_async(None))

    async with tasks.connected() as found:
        assert await asyncio.to_thread(elsewhere) is not found


async def test_two_applications_may_connect_the_same_tasks(environment: list[Any]) -> None:
    tasks, _ = declared()
    first, second = tasks.connected(), tasks.connected()
    await first.__aenter__()
    found = await second.__aenter__()

    await first.__aexit__(None, None, None)
    assert await tasks.clients.for_async(None) is found
    await second.__aexit__(None, None, None)

    assert await tasks.clients.for_async(None) is environment[2]
