"""Wake-ups by LISTEN and NOTIFY: coalesced, outside every transaction that matters, and only ever hints."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

import asyncpg
import msgspec

from oncue.domain.errors import StoreUnavailable
from oncue.engines.port import Hint, Topic
from oncue.engines.postgres.store import Store

CHANNEL = "oncue"
LINGER = 0.005  # seconds to gather hints before they travel together
RECONNECT = 1.0
MOST_PER_NOTIFY = 50  # well below the 8,000 bytes that one notification may have

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[Hint]).decode


class PostgresSignals:
    """NOTIFY serialises commits database-wide, so it travels apart, in a transaction that flushes nothing to disk."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pending: dict[tuple[Topic, str | None], Hint] = {}
        self._flushing: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    async def send(self, hints: Sequence[Hint]) -> None:
        for hint in hints:
            key = (hint.topic, hint.target)
            self._pending[key] = _sooner(self._pending.get(key), hint)
        if self._pending and not self._closing.is_set() and (self._flushing is None or self._flushing.done()):
            self._flushing = asyncio.create_task(self._flush())

    async def listen(self) -> AsyncIterator[Hint]:
        """After every connection, and every one that had to be made again, a hint of each topic: some may be missed."""
        while not self._closing.is_set():
            heard: asyncio.Queue[Hint | None] = asyncio.Queue()
            try:
                connection = await asyncpg.connect(
                    self._store.url, server_settings={"application_name": "oncue signals"}
                )
                await connection.add_listener(CHANNEL, lambda *args, heard=heard: _hear(heard, args[-1]))
            except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
                await self._closes_within(RECONNECT)
                continue
            connection.add_termination_listener(lambda _, heard=heard: heard.put_nowait(None))
            closer = asyncio.create_task(self._end_when_closing(heard))
            try:
                for topic in Topic:
                    yield Hint(topic)
                while (hint := await heard.get()) is not None:
                    yield hint
            finally:
                closer.cancel()
                connection.terminate()

    async def close(self) -> None:
        self._closing.set()
        if self._flushing is not None:
            await self._flushing

    async def _flush(self) -> None:
        while self._pending and not await self._closes_within(LINGER):
            hints, self._pending = list(self._pending.values()), {}
            try:
                async with self._store.connection() as connection, connection.transaction():
                    await connection.execute("set local synchronous_commit = off")
                    for i in range(0, len(hints), MOST_PER_NOTIFY):
                        text = _encode(hints[i : i + MOST_PER_NOTIFY]).decode()
                        await connection.execute("select pg_notify($1, $2)", CHANNEL, text)
            except StoreUnavailable:
                return  # hints may be lost: whoever needed them polls

    async def _end_when_closing(self, heard: asyncio.Queue[Hint | None]) -> None:
        await self._closing.wait()
        heard.put_nowait(None)

    async def _closes_within(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closing.wait()
        return self._closing.is_set()


def _hear(heard: asyncio.Queue[Hint | None], text: object) -> None:
    with suppress(msgspec.MsgspecError):  # somebody else may use the same channel
        for hint in _decode(str(text)):
            heard.put_nowait(hint)


def _sooner(one: Hint | None, other: Hint) -> Hint:
    """Two hints about the same thing as one. Without a due it means: look now, at everything."""
    if one is None or other.due is None:
        return other
    return one if one.due is None or one.due <= other.due else other
