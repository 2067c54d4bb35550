"""Wake-ups by LISTEN and NOTIFY: combined, outside every important transaction, and only hints."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress

import asyncpg
import msgspec

from oncue.clock import happens_within
from oncue.domain.errors import StoreUnavailable
from oncue.domain.ids import WorkerId
from oncue.domain.instants import MILLISECOND, SECOND, Duration
from oncue.engines.hints import Pending, addressee, reader
from oncue.engines.port import Hint, Topic, Worker
from oncue.engines.port.signals import EVERY_TOPIC
from oncue.engines.postgres.silence import attend
from oncue.engines.postgres.store import CONNECTION_ERRORS, Store
from oncue.engines.recipients import Recipients

GATHER_TIME = Duration(5 * MILLISECOND)  # to collect hints before they are sent together
RECONNECT_DELAY = Duration(SECOND)
CLOSE_TIMEOUT = 3.0  # seconds that closing waits for hints being sent and for listeners to disconnect
# In a transaction of its own, by one statement: the setting is local, and counts when it commits.
NOTIFY = (
    "select set_config('synchronous_commit', 'off', true), pg_notify(channel, text)"
    " from unnest($1::text[], $2::text[]) said (channel, text)"
)
LONGEST_NOTIFICATION = 7_900  # bytes of one notification; PostgreSQL refuses 8,000

_encode = msgspec.json.Encoder().encode
_decode = reader(msgspec.json.Decoder)


class PostgresSignals:
    """NOTIFY serialises commits database-wide, so it has its own transaction, which flushes nothing to disk."""

    def __init__(self, store: Store, workers: Callable[[], Awaitable[Sequence[Worker]]]) -> None:
        self._store = store
        self._recipients = Recipients(workers, store.clock)
        self._pending = Pending()
        self._passed_on: list[tuple[Hint, WorkerId]] = []
        self._flushing: asyncio.Task[None] | None = None
        self._hearing: dict[asyncio.Task[None], asyncio.Event] = {}  # each with the event that stops it
        self._closing = asyncio.Event()
        self.failed = 0  # hints that were not sent
        self.reconnected = 0  # times that a listener's connection broke

    async def send(self, hints: Sequence[Hint]) -> None:
        self._pending.add(hints)
        self._flush_soon()

    async def pass_on(self, hint: Hint, by: WorkerId) -> None:
        self._passed_on.append((hint, by))
        self._pending.something.set()
        self._flush_soon()

    def _flush_soon(self) -> None:
        if (
            self._pending.something.is_set()
            and not self._closing.is_set()
            and (self._flushing is None or self._flushing.done())
        ):
            self._flushing = asyncio.create_task(self._flush())

    async def listen(
        self, topics: Collection[Topic] = EVERY_TOPIC, worker: WorkerId | None = None
    ) -> AsyncIterator[Hint]:
        if self._closing.is_set():
            return
        heard: asyncio.Queue[Hint | None] = asyncio.Queue()
        enough = asyncio.Event()
        channels = [*map(self._channel_of, sorted(topics)), *([] if worker is None else [self._channel_for(worker)])]
        hearing = asyncio.create_task(self._receive(heard, enough, topics, channels))
        self._hearing[hearing] = enough
        hearing.add_done_callback(self._hearing.pop)
        hearing.add_done_callback(lambda _: heard.put_nowait(None))
        try:
            while (hint := await heard.get()) is not None:
                yield hint
        finally:
            enough.set()

    async def close(self) -> None:
        """Stop listeners by an event: the driver reports an error when a connection attempt is cancelled."""
        self._closing.set()
        for enough in self._hearing.values():
            enough.set()
        left = {*self._hearing, *({self._flushing} if self._flushing else ())}
        if left:
            _, late = await asyncio.wait(left, timeout=CLOSE_TIMEOUT)
            for task in late:
                task.cancel()

    async def _flush(self) -> None:
        while self._pending.something.is_set():
            await happens_within(self._store.clock, self._closing, GATHER_TIME)
            hints, passed_on, self._passed_on = self._pending.take(), self._passed_on, []
            try:
                said = await self._recipients.addressed(hints)
                for hint, by in passed_on:
                    said += await self._recipients.passed_on(hint, by)
                if said:
                    channels, texts = zip(*self._packed(said), strict=True)
                    await self._store.fetch(NOTIFY, channels, texts)
            except (StoreUnavailable, asyncpg.PostgresError):
                self.failed += len(hints) + len(passed_on)
                return  # hints may be lost: their receivers poll

    def _packed(self, hints: Iterable[Hint]) -> Iterator[tuple[str, str]]:
        """Yield channels and what to send there, in as few texts as possible."""
        by_channel: dict[str, list[Hint]] = {}
        for hint in hints:
            target = addressee(hint)
            channel = self._channel_of(hint.topic) if target is None else self._channel_for(target)
            by_channel.setdefault(channel, []).append(hint)
        for channel, some in by_channel.items():
            for text in _packed(some):
                yield channel, text

    def _channel_of(self, topic: Topic) -> str:
        """CHANGED stays on the channel of earlier versions: nobody would find by a poll what they changed."""
        place = self._store.place
        return place.channel if topic is Topic.CHANGED else place.channel_of(topic)

    def _channel_for(self, worker: object) -> str:
        return self._store.place.channel_of(str(worker))

    async def _receive(
        self,
        heard: asyncio.Queue[Hint | None],
        enough: asyncio.Event,
        topics: Collection[Topic],
        channels: Sequence[str],
    ) -> None:
        """Listen. After every connect and reconnect, yield a hint of each topic: some may have been missed."""

        def understand(*said: object) -> None:
            for hint in _understood(said[-1]):
                if hint.topic in topics:
                    heard.put_nowait(hint)

        while not enough.is_set():
            awake = asyncio.Event()  # the connection has ended
            with suppress(StoreUnavailable, asyncpg.PostgresError, *CONNECTION_ERRORS):
                connection = await self._store.connect_listener()
                try:
                    connection.add_termination_listener(lambda _, awake=awake: awake.set())
                    for channel in channels:
                        await connection.add_listener(channel, understand)
                    for topic in sorted(topics):
                        heard.put_nowait(Hint(topic))
                    await attend(connection, self._store.silences, self._store.clock, awake, enough)
                finally:
                    connection.terminate()
                    self.reconnected += awake.is_set()
            if not awake.is_set():
                await happens_within(self._store.clock, enough, RECONNECT_DELAY)


def _understood(text: object) -> list[Hint]:
    try:
        return _decode(str(text).encode())
    except msgspec.MsgspecError:  # another program may use the same channel
        return []


def _packed(hints: Iterable[Hint]) -> Iterator[str]:
    """Encode hints in as few texts as possible. A target that is too long is left out: then every process looks."""
    pack: list[bytes] = []
    size = 0
    for hint in hints:
        text = _encode(hint)
        if len(text) + 1 > LONGEST_NOTIFICATION:
            text = _encode(Hint(hint.topic, hint.due))
        size += len(text) + 1
        if size > LONGEST_NOTIFICATION:
            yield f"[{b','.join(pack).decode()}]"
            pack, size = [], len(text) + 1
        pack.append(text)
    yield f"[{b','.join(pack).decode()}]"
