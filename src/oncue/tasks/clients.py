"""Which client a handle uses, decided when it is called. Importing user code connects to nothing."""

from __future__ import annotations

import asyncio
import atexit
import os
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from threading import Lock
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from oncue.context import Reports, current
from oncue.overriding import Override, override_in_use

if TYPE_CHECKING:
    from oncue.client import AsyncClient, Client


class Clients:
    """The clients of one `Tasks`. In this order: an override, the call's own, inside a run the worker itself, that of
    the `Tasks`, the environment's.

    The last is created at first use: one for each process, and one for each event loop, closed at their end.
    """

    def __init__(self, given: Client | AsyncClient | None, *, url: str | None = None, key: str | None = None) -> None:
        self.override: Override | None = None
        self._given = given
        self._url, self._key = url, key  # of the environment's; None: as the environment says
        self._connected: Clients | None = None  # those of another server
        self._opened: WeakKeyDictionary[asyncio.AbstractEventLoop, list[AsyncClient]] = WeakKeyDictionary()
        self._of_process: tuple[int, Client] | None = None
        self._of_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncGenerator[AsyncClient, None]]
        self._of_loops = WeakKeyDictionary()
        self._found: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncClient] = WeakKeyDictionary()
        self._lock = Lock()

    def in_run(self, asked: Client | AsyncClient | None) -> Reports | None:
        """Return the run that executes this code, whose worker creates jobs without a client; None: use a client."""
        return None if self.override is not None or asked is not None else current.get()

    def for_sync(self, asked: Client | AsyncClient | None) -> Client:
        """TypeError: the call or the `Tasks` names an AsyncClient, which needs `await`."""
        from oncue.client import Client

        if self.override is not None:
            return self.override.client
        found = asked or self._given
        if found is None:
            return self._environments()
        if not isinstance(found, Client):
            raise TypeError("an AsyncClient needs await: leave out .sync, or pass a Client")
        return found

    async def for_async(self, asked: Client | AsyncClient | None) -> AsyncClient:
        """TypeError: the call or the `Tasks` names a Client, which would block the event loop."""
        from oncue.client import AsyncClient

        if self.override is not None:
            return self.override.async_client
        opened = self._opened.get(asyncio.get_running_loop())  # a client belongs to one loop
        found = asked or (opened[-1] if opened else None)
        if found is None and self._connected is not None:
            return await self._connected.for_async(None)
        found = found or self._given
        if found is None:
            return await self._environments_of_loop()
        if not isinstance(found, AsyncClient):
            raise TypeError("a Client would block the event loop: write .sync before the call, or pass an AsyncClient")
        return found

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[AsyncClient]:
        from oncue.client import AsyncClient

        override = self.override or (None if self._url else override_in_use())
        if override is not None:
            yield override.async_client
            return
        async with AsyncClient(self._url, self._key) as client:
            opened = self._opened.setdefault(asyncio.get_running_loop(), [])
            opened.append(client)
            try:
                yield client
            finally:
                opened.remove(client)  # not always the last: two applications may share the tasks

    @contextmanager
    def during(self, client: Client, clients: Clients) -> Iterator[None]:
        """Use these within the block: the client without an event loop, the others in one."""
        before = self._given, self._connected
        self._given, self._connected = client, clients
        try:
            yield
        finally:
            self._given, self._connected = before

    def _environments(self) -> Client:
        from oncue.client import Client

        with self._lock:
            if self._of_process is None or self._of_process[0] != os.getpid():  # a forked process shares no socket
                client = Client(self._url, self._key)
                atexit.register(client.close)
                self._of_process = os.getpid(), client
            return self._of_process[1]

    async def _environments_of_loop(self) -> AsyncClient:
        loop = asyncio.get_running_loop()
        if (found := self._found.get(loop)) is None:
            self._of_loops[loop] = holding = self._holding(loop)
            found = self._found[loop] = await anext(holding)
        return found

    async def _holding(self, loop: asyncio.AbstractEventLoop) -> AsyncGenerator[AsyncClient, None]:
        """Hold a client until the loop ends: asyncio closes generators that are left before it closes the loop."""
        from oncue.client import AsyncClient

        client = AsyncClient(self._url, self._key)
        try:
            yield client
        finally:
            self._found.pop(loop, None)
            await client.close()
