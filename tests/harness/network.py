"""The network between oncue and PostgreSQL: each process has a line of its own, which can fail in every way."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from bench.store_proxy import StoreProxy

RESETS = 0.2  # how likely a request is the last of its connection, while that is the fault
DELAY = 0.15  # seconds


class Network:
    """Proxies in a thread with a loop of their own: the harness itself may wait."""

    def __init__(self, url: str, seed: int) -> None:
        self._url = urlsplit(url)
        self._seed = seed
        self._proxies: dict[str, StoreProxy] = {}
        self._loop = asyncio.new_event_loop()
        self._ends = AsyncExitStack()
        self._thread = threading.Thread(target=self._loop.run_forever, name="network", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._ends.aclose(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def line(self, place: str) -> str:
        """The URL of the database for a process at this place."""
        port = asyncio.run_coroutine_threadsafe(self._lay(place), self._loop).result(30)
        return self._url._replace(netloc=f"postgres@127.0.0.1:{port}").geturl()

    async def _lay(self, place: str) -> int:
        assert self._url.port is not None
        self._proxies[place] = StoreProxy(self._url.port, self._seed)
        return await self._ends.enter_async_context(self._proxies[place].listening())

    @property
    def came_late(self) -> int:
        """How many requests reached the server after their sender had hung up."""
        return sum(proxy.came_late for proxy in self._proxies.values())

    def begin(self, kind: str, place: str) -> None:
        self._do(_BEGIN[kind], place)

    def end(self, kind: str, place: str) -> None:
        if kind in _END:
            self._do(_END[kind], place)

    def heal(self) -> None:
        for place in self._proxies:
            for end in _END.values():
                self._do(end, place)

    def _do(self, what: Callable[[StoreProxy], None], place: str) -> None:
        done = threading.Event()

        def do() -> None:
            what(self._proxies[place])
            done.set()

        self._loop.call_soon_threadsafe(do)
        assert done.wait(30), "the network does not answer"


def _set(name: str, value: float) -> Callable[[StoreProxy], None]:
    return lambda proxy: setattr(proxy, name, value)


def _unmute(proxy: StoreProxy) -> None:
    """What was held back never arrives: the connections are cut first."""
    if not proxy.answering.is_set():
        proxy.cut()
    proxy.answering.set()


_BEGIN: dict[str, Callable[[StoreProxy], None]] = {
    "cut": StoreProxy.cut,
    "half open": lambda proxy: (proxy.leave_half_open(), None)[1],
    "delay": _set("delay", DELAY),
    "mute": lambda proxy: proxy.answering.clear(),
    "stall": lambda proxy: proxy.open.clear(),
    "resets": _set("resets", RESETS),
}
# A stall ends with everything that was sent meanwhile, also by those who have hung up.
_END: dict[str, Callable[[StoreProxy], None]] = {
    "delay": _set("delay", 0.0),
    "mute": _unmute,
    "stall": lambda proxy: proxy.open.set(),
    "resets": _set("resets", 0.0),
}
