"""Results that object storage did not take: in files of this worker, until storage is available again.

Each file says in its first line which run it belongs to. A result is attached only to the run and attempt that made it.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import UUID

import msgspec

from oncue.clock import Clock
from oncue.domain.errors import StorageRefused, StorageUnavailable
from oncue.domain.ids import RunId, UserNumber
from oncue.domain.instants import HOUR, SECOND, Duration, Instant
from oncue.domain.reference import Kind, Reference
from oncue.domain.run import Claimed
from oncue.engines.port import Engine, StoredObject
from oncue.log import log
from oncue.metrics.numbers import SILENT, Numbers
from oncue.metrics.table import SPOOL_BYTES
from oncue.storage.port import Storage

EVERY = Duration(10 * SECOND)
MOST_BYTES = 1024 * 1024 * 1024
WAITED_FOR = HOUR  # a run that was not settled by then has lost this result
UNFINISHED = ".part"


class Spooled(msgspec.Struct, frozen=True):
    """The first line of a file."""

    run_id: UUID
    token: int
    uid: UserNumber
    reference: Reference
    at: Instant


class Waiting(msgspec.Struct, frozen=True):
    """What is in a spool."""

    results: int
    bytes: int
    oldest: Duration


class Spool:
    name = "spool"

    def __init__(self, engine: Engine, storage: Storage, clock: Clock, folder: Path, numbers: Numbers = SILENT) -> None:
        self._engine = engine
        self._storage = storage
        self._clock = clock
        self._folder = folder
        numbers.read(SPOOL_BYTES, lambda: {(): _size(folder)})

    async def add(self, run: Claimed, reference: Reference, content: bytes) -> bool:
        """Keep a result. False: the spool is full, or its folder cannot be written."""
        spooled = Spooled(run.run_id, run.token, run.uid, reference, self._clock.now())
        return await asyncio.to_thread(_write, self._folder, spooled, content)

    async def run_once(self) -> Duration:
        """Attach what can be attached."""
        if not self._folder.exists():
            return EVERY
        for file in await asyncio.to_thread(_files, self._folder):
            if not await self._attach(file):
                break
        return EVERY

    async def _attach(self, file: Path) -> bool:
        """False: storage is still unavailable."""
        read = await asyncio.to_thread(_read, file)
        if read is None:
            return True
        spooled, content = read
        if Reference.to(spooled.reference.key, content) != spooled.reference:
            await asyncio.to_thread(file.unlink, missing_ok=True)
            log.error("A result in the spool is damaged and lost", kind="spool_damaged", run_id=str(spooled.run_id))
            return True
        lost, found = msgspec.structs.replace(spooled.reference, key=""), spooled.reference
        row = StoredObject(found.key, spooled.uid, spooled.run_id, Kind.RESULT, found.size)
        try:
            await self._engine.objects.add([row], self._clock.now())
            await self._storage.put(found.key, content)
        except (StorageUnavailable, StorageRefused):
            return False
        run_id = RunId(spooled.run_id)
        attached = await self._engine.objects.attach(run_id, spooled.token, lost.encoded(), found.encoded())
        if attached or self._clock.now() - spooled.at > WAITED_FOR:
            await asyncio.to_thread(file.unlink, missing_ok=True)
            log.info("A result left the spool", kind="result_attached", run_id=str(run_id), attached=attached)
        return True


def _files(folder: Path) -> list[Path]:
    """Oldest first, without those that are being written."""
    try:
        return sorted(file for file in folder.iterdir() if file.suffix != UNFINISHED)
    except OSError:
        return []


def waiting_in(folder: Path, now: Instant) -> Waiting:
    """Return what waits in a spool, for whoever looks from outside."""
    heads = [head for file in _files(folder) if (head := _head(file)) is not None]
    since = min((one.at for one in heads), default=now)
    return Waiting(len(heads), sum(one.reference.size for one in heads), Duration(max(now - since, 0)))


def _size(folder: Path) -> float:
    try:
        return sum(file.stat().st_size for file in folder.iterdir())
    except OSError:
        return 0


def _write(folder: Path, spooled: Spooled, content: bytes) -> bool:
    if _size(folder) + len(content) > MOST_BYTES:
        return False
    file = folder / f"{spooled.at}-{spooled.run_id}-{spooled.token}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        unfinished = file.with_suffix(UNFINISHED)
        with unfinished.open("wb") as to:
            to.write(msgspec.json.encode(spooled) + b"\n")
            to.write(content)
        unfinished.rename(file)
    except OSError as no:
        log.warning("The spool cannot be written", kind="spool_failed", why=str(no))
        return False
    return True


def _head(file: Path) -> Spooled | None:
    try:
        with file.open("rb") as lines:
            return msgspec.json.decode(lines.readline(), type=Spooled)
    except (OSError, ValueError):
        return None


def _read(file: Path) -> tuple[Spooled, bytes] | None:
    try:
        head, _, content = file.read_bytes().partition(b"\n")
        return msgspec.json.decode(head, type=Spooled), content
    except (OSError, ValueError):
        return None
