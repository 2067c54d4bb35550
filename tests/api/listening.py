"""The API on a real port, in a thread with a loop of its own, on a store that has something of everything."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import Any

import msgspec
from tests.api.conftest import TASKS, add_key

from oncue.api.application import Application
from oncue.api.http.connection import most_connections
from oncue.api.http.server import Server
from oncue.domain.instants import HOUR, Duration
from oncue.domain.keys import key_hash
from oncue.engines.port import Role
from oncue.settings import Settings
from oncue.testing.clock import FakeClock
from oncue_conformance.store import EmptyStore, Store

KEY = "nightly"  # of a job that each of ada and root has


class Passing(FakeClock):
    """Stands still until somebody sleeps, and then is where it was waited for: nobody waits in vain."""

    async def sleep(self, length: Duration) -> None:
        await self.advance(length)


class House(msgspec.Struct):
    """Where it listens, the keys of people by their names, the ids of ada's things by what they are, and its end."""

    address: str
    keys: dict[str, str]
    things: dict[str, str]
    stop: Callable[[], None]

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])


@contextmanager
def listening(empty_store: EmptyStore, most: int | None = None) -> Iterator[House]:
    """`most` connections, or as many as ever."""
    told: Future[House] = Future()
    loop, done = asyncio.new_event_loop(), asyncio.Event()

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            try:
                runner.run(_serve(empty_store, told, done, most or most_connections()))
            except BaseException as error:
                if told.done():
                    raise
                told.set_exception(error)

    thread = threading.Thread(target=run, name="the API")
    thread.start()
    try:
        yield told.result(timeout=60)
    finally:
        if told.exception() is None:
            loop.call_soon_threadsafe(done.set)
        thread.join()


async def _serve(empty_store: EmptyStore, told: Future[House], done: asyncio.Event, most: int) -> None:
    async with await Store.on(await empty_store()) as store:
        root = await store.accounts.user("root", store.now)
        keys = {
            "root": await add_key(store, root, "root", Role.ADMIN),
            "ada": await add_key(store, store.uid, "ada", Role.MEMBER),
            "bob": await add_key(store, store.stranger, "bob", Role.MEMBER),
        }
        things = await _something_of_everything(store)
        spare = await store.accounts.key(key_hash(await add_key(store, store.stranger, "bob", Role.VIEWER)))
        assert spare is not None
        things["spare key"] = str(spare.key_id)
        app = Application(store.engine, Passing(store.now), Settings(rate_limit=0))
        with socket.socket(proto=socket.IPPROTO_TCP) as door:  # said, or asyncio lets small answers wait for each other
            door.bind(("127.0.0.1", 0))
            server = Server(app, most)
            served = asyncio.create_task(server.serve(sockets=[door]))
            await server.listening.wait()
            stop = partial(asyncio.get_running_loop().call_soon_threadsafe, done.set)
            told.set_result(House(f"http://127.0.0.1:{door.getsockname()[1]}", keys, things, stop))
            await done.wait()
            server.should_exit = True
            await app.api.watching.close()
            await served


async def _something_of_everything(store: Store) -> dict[str, str]:
    await store.fleet.announce(TASKS, store.now)
    worker = await store.worker()
    things: dict[str, Any] = {"worker": worker}
    for state in ("dead", "succeeded", "running"):
        await store.one_shot(task="mark")
        [run] = await store.claim_due(worker)
        things[state] = run.run_id
        if state == "dead":
            await store.fail(worker, run, retry=False)
        elif state == "succeeded":
            await store.succeed(worker, run, result=b'{"answer":42}')
    things["recurring"] = await store.recurring(task="mark")
    for uid in (store.uid, await store.accounts.user("root", store.now)):
        await store.recurring(task="mark", key=KEY, uid=uid)
    things["later"] = await store.one_shot(HOUR, task="mark")
    return {name: str(thing) for name, thing in things.items()}
