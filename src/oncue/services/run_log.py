"""The log of one attempt on its way to the database and to object storage.

The first part of a run's log is in the database, in small parts; the rest in object storage, in compressed chunks. What
exceeds the cap is left out, with a note, except for the end. If the rest is stored after the end of its attempt, the
database has a note for readers until then.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from typing import Protocol

import msgspec

from oncue.clock import Clock
from oncue.domain.errors import StoreUnavailable
from oncue.domain.ids import UserNumber, WorkerId
from oncue.domain.instants import SECOND, Duration, Instant
from oncue.domain.reference import MARK, RANDOM_BYTES, Kind, Reference, object_key, size_of
from oncue.domain.run import Claimed
from oncue.domain.run_parts import NOTES, PARTS, caught_up, delayed, start_of, waits
from oncue.engines.port import Engine, StoredObject
from oncue.engines.port.history import LOG_INLINE
from oncue.storage.compression import compress
from oncue.storage.port import Storage

CHUNK = 1024 * 1024  # bytes of text in one object
CHUNK_AGE = Duration(5 * SECOND)  # after which a smaller chunk is put, too
OFTEN = 20  # chunks; then they are put more and more rarely, so that a slow log makes no endless number of objects
LEVEL = 3  # of compression
END = 64 * 1024  # bytes of the end that are always kept
MOST_HELD = 64 * 1024 * 1024  # bytes of all logs of a worker that are not stored yet

CUT = "\n… the log is longer than {cap} bytes: the rest is left out, except for its end\n"
LEFT_OUT = "\n… {left_out} bytes were left out here; this is the end of the log\n"


class Chunk(msgspec.Struct, frozen=True):
    """A piece of a log to put: once it is made, it is put and referred to any number of times with the same result."""

    number: int
    reference: Reference
    content: bytes
    length: int  # of the text


class Destination(Protocol):
    """Where logs go, and how much of them is on the way."""

    engine: Engine
    storage: Storage
    clock: Clock
    cap: int
    worker_id: WorkerId

    @property
    def crowded(self) -> bool:
        """Whether too much is on the way."""
        ...

    def taken(self, text: int) -> None: ...

    def stored(self, text: int) -> None: ...

    def dropped(self, text: int) -> None: ...

    def was_cut(self) -> None: ...


class RunLog:
    """Takes text at once, from any thread, and stores it when told to."""

    __slots__ = (
        "_chunks",
        "_counted",
        "_cut",
        "_delayed",
        "_end",
        "_end_size",
        "_inline_room",
        "_left_out",
        "_next",
        "_put_so_far",
        "_room",
        "_run",
        "_since",
        "_to",
        "_told",
        "_unsure",
        "_words",
        "inline",
    )

    def __init__(self, run: Claimed, to: Destination) -> None:
        self._run = run
        self._to = to
        self._words: deque[bytes] = deque()
        self._unsure: bytes | None = None  # a part that may have been stored: it is stored again as it was
        self._chunks: deque[Chunk] = deque()
        self.inline = True  # the database still takes text
        self._inline_room = LOG_INLINE  # bytes that the database still takes
        self._room = to.cap
        self._counted = run.token == 1  # nothing is stored before the first start
        self._next = run.token * PARTS  # of each start, also of one that returned to the queue
        self._put_so_far = 0  # chunks
        self._since: Instant | None = None  # when the text that waits for its chunk began
        self._cut = False
        self._end: deque[bytes] = deque()
        self._end_size = 0
        self._left_out = 0
        self._delayed = False  # readers are to know that a rest will be stored later
        self._told = False  # and it is stored that they do

    def write(self, said: bytes) -> None:
        if not self._cut and (len(said) > self._room or self._to.crowded):
            fits = _beginning(said, self._room)
            said = said[len(fits) :]
            self._add(fits + CUT.format(cap=self._to.cap).encode())
            self._cut = True
            self._to.was_cut()
        if self._cut:
            self._keep_end(said)
        else:
            self._room -= len(said)
            self._add(said)

    def _add(self, said: bytes) -> None:
        self._to.taken(len(said))
        self._words.append(said)

    def _keep_end(self, said: bytes) -> None:
        self._end.append(said[-END:])
        self._end_size += len(self._end[-1])
        self._left_out += len(said)
        while self._end_size - len(self._end[0]) >= END:
            self._end_size -= len(self._end.popleft())

    async def store(self, *, last: bool = False) -> bool:
        """Store what there is; a small rest may wait, unless it is the `last`. False: it waits."""
        if last and self._cut and self._end:
            end = b"".join(self._end)[-END:].decode(errors="ignore").encode()
            self._end.clear()
            left_out = self._left_out - len(end)
            self._add((LEFT_OUT.format(left_out=left_out).encode() if left_out else b"") + end)
            self._cut = False
        if self._delayed and not self._told:
            await self.delay()
        if not self._counted:
            await self._count_earlier()
        while self._chunks:
            await self._put(self._chunks[0])
        while self.inline and (self._unsure is not None or self._words):
            await self._store_inline()
        stored = not self._words or await self._store_chunks(last)
        if stored and last and self._delayed:
            await self._catch_up()
        return stored and not self._end

    async def delay(self) -> None:
        """Tell readers that a rest will be stored later. If that is not written now, `store` tries again."""
        self._delayed = True
        await self._note(delayed(self._run.token), waits(self._to.worker_id))
        self._told = True

    async def _catch_up(self) -> None:
        await self._note(caught_up(self._run.token), b"")
        self._delayed = False

    async def _note(self, number: int, text: bytes) -> None:
        """Store a note. If the database is unavailable, `store` tries again; a note that is refused is given up."""
        try:
            await self._to.engine.history.append_log(self._run.run_id, number, text, self._to.clock.now())
        except (StoreUnavailable, asyncio.CancelledError):
            raise
        except BaseException:
            self._delayed = False
            raise

    @property
    def delayed(self) -> bool:
        """Whether readers wait for a rest."""
        return self._delayed

    async def _store_inline(self) -> None:
        if self._unsure is None:
            text = b"".join(self._words.popleft() for _ in range(len(self._words)))
            text = b"\\x01" + text[1:] if text.startswith(MARK) else text  # it must not pass for a reference
            self._unsure = _beginning(text, self._inline_room)
            if len(self._unsure) < len(text):
                self._words.appendleft(text[len(self._unsure) :])
        append, run_id, now = self._to.engine.history.append_log, self._run.run_id, self._to.clock.now()
        if self._unsure and await append(run_id, self._next, self._unsure, now):
            self._next += 1
            self._inline_room -= len(self._unsure)
            self._to.stored(len(self._unsure))
        else:
            self.inline = False
            self._words.appendleft(self._unsure)
        self._unsure = None

    async def _count_earlier(self) -> None:
        """Count what earlier starts have stored: the cap is that of the run."""
        found = await self._to.engine.history.read_log(self._run.run_id)
        parts = [part for part in found if part.number < NOTES]
        earlier = sum(size_of(part.text) for part in parts if start_of(part.number) != self._run.token)
        self._room = max(0, self._room - earlier)
        self._inline_room -= sum(len(part.text) for part in parts if not part.text.startswith(MARK))
        self._counted = True

    async def _store_chunks(self, last: bool) -> bool:
        now, waiting = self._to.clock.monotonic(), sum(map(len, self._words))
        self._since = now if self._since is None else self._since
        often = 1 + self._put_so_far // OFTEN
        if waiting < CHUNK and now - self._since < often * CHUNK_AGE and not last:
            return False
        self._since = None
        text = b"".join(self._words.popleft() for _ in range(len(self._words)))
        for start in range(0, len(text), CHUNK):
            self._chunks.append(await asyncio.to_thread(self._chunk, text[start : start + CHUNK], len(self._chunks)))
        while self._chunks:
            await self._put(self._chunks[0])
        return True

    def _chunk(self, text: bytes, before: int) -> Chunk:
        key = object_key(Kind.LOG, self._run.uid, self._to.clock.now(), secrets.token_bytes(RANDOM_BYTES))
        content = compress(text, level=LEVEL)
        return Chunk(self._next + before, Reference.to(key, content, len(text)), content, len(text))

    async def _put(self, chunk: Chunk) -> None:
        run, to = self._run, self._to
        row = StoredObject(chunk.reference.key, UserNumber(run.uid), run.run_id, Kind.LOG, chunk.reference.size)
        await to.engine.objects.add([row], to.clock.now())
        await to.storage.put(row.key, chunk.content)
        await to.engine.history.append_log(run.run_id, chunk.number, chunk.reference.encoded(), to.clock.now())
        self._chunks.popleft()
        self._put_so_far += 1
        self._next = chunk.number + 1
        to.stored(chunk.length)

    def drop(self) -> None:
        """Forget what could not be stored."""
        lost = sum(map(len, self._words)) + sum(chunk.length for chunk in self._chunks) + len(self._unsure or b"")
        self._to.dropped(lost)
        self._words.clear()
        self._chunks.clear()
        self._unsure = None


def _beginning(text: bytes, room: int) -> bytes:
    """As much of a text as fits, without a part of a character."""
    return text if len(text) <= room else text[: max(room, 0)].decode(errors="ignore").encode()
