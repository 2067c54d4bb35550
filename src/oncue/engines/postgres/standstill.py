"""Writes that do not come back although the server answers: whether, since what, and when they do again.

A commit waits for as long as a synchronous replica is silent, while reads and pings are answered. What has given up
waiting leaves a session behind that waits on, so that no write may be tried again and again: one small write is, and
all others wait for it.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import asyncpg

from oncue.clock import Clock
from oncue.domain.errors import StoreUnavailable
from oncue.domain.instants import SECOND, Duration, Instant
from oncue.domain.plain_text import printable
from oncue.engines.sql import statements
from oncue.log import log

SURELY = Duration(SECOND)  # a write that takes longer waits for something, whatever it is
ASK_AGAIN = Duration(SECOND // 5)

_SQL = statements("oncue.engines.postgres")

Ask = Callable[[str], Awaitable[Sequence[asyncpg.Record]]]


class PostgresStandstill:
    """`ask` runs a statement on a connection for which none of our calls waits."""

    def __init__(self, ask: Ask, clock: Clock) -> None:
        self._ask = ask
        self._clock = clock
        self._over = asyncio.Event()
        self._probing: asyncio.Task[None] | None = None
        self._began = Instant(0)
        self._lifting: asyncio.Task[None] | None = None
        self.why: str | None = None

    async def probe(self) -> None:
        """Write something small. There is one such write at a time: it goes on when who asked for it gives up."""
        await asyncio.shield(self._current())

    async def check(self, within: Duration) -> str | None:
        """Return why a small write does not come back within this time; None: it did, or it is only slow.

        StoreUnavailable: it failed, so others will fail, too, and need not wait.
        """
        if self.why is not None:
            return self.why
        probing = self._current()
        with suppress(TimeoutError):
            async with self._clock.timeout(Duration(within * 3 // 4)):
                await asyncio.shield(probing)
                return None
        with suppress(StoreUnavailable, TimeoutError):
            async with self._clock.timeout(Duration(within // 4)):
                why = await self._reason()
                if why is None and self._clock.monotonic() - self._began >= SURELY:
                    why = "a small write waits for a second already; check the load of the server and its disk"
                if why is not None and not probing.done():
                    self._begin(why)
        return self.why

    async def over(self) -> None:
        """Return when writes come back."""
        await self._over.wait()

    def close(self) -> None:
        for task in (self._lifting, self._probing):
            if task is not None:
                task.cancel()

    # -------------------------------------------------------------------------------------------------------- one write

    def _current(self) -> asyncio.Task[None]:
        if self._probing is None or self._probing.done():
            self._began = self._clock.monotonic()
            # not in the context of a caller, who may have little time left
            self._probing = asyncio.create_task(self._write(), context=contextvars.Context())
            self._probing.add_done_callback(_seen)
        return self._probing

    async def _write(self) -> None:
        await self._ask(_SQL["probe"])

    async def _reason(self) -> str | None:
        """Return which replica commits wait for. None: for none. Who may not see replicas sees the setting."""
        [(wanted, waiting, behind)] = await self._ask(_SQL["awaited_replicas"])
        if not waiting:
            return None
        if behind:
            return f"the synchronous replica {printable(behind)} does not answer"
        return f"no synchronous replica answers (synchronous_standby_names: {printable(wanted)})"

    # ------------------------------------------------------------------------------------------------- while it lasts

    def _begin(self, why: str) -> None:
        self.why = why
        self._over.clear()
        log.warning("The database does not confirm writes; they wait", kind="writes_stalled", why=why)
        self._lifting = asyncio.create_task(self._lift())

    async def _lift(self) -> None:
        """Wait for a write that comes back, or for an error that says that there is something else to be told."""
        began = self._clock.monotonic()
        while True:
            try:
                await asyncio.shield(self._current())
                break
            except StoreUnavailable:
                with suppress(StoreUnavailable):
                    if (why := await self._reason()) is not None:
                        self.why = why
                        await self._clock.sleep(ASK_AGAIN)
                        continue
                break
        self.why = None
        self._over.set()
        seconds = round((self._clock.monotonic() - began) / SECOND, 1)
        log.info("The database confirms writes again, or is unavailable", kind="writes_back", seconds=seconds)


def _seen(probing: asyncio.Task[None]) -> None:
    """Look at the error of a write that nobody waits for any more."""
    if not probing.cancelled():
        probing.exception()
