"""What `oncue doctor` sees of object storage, of the archive, and of results that wait for storage on this machine."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path

from oncue.clock import Clock
from oncue.domain.diagnosis import Diagnosis, ok, problem, warning
from oncue.domain.errors import ObjectLost, StorageRefused, StorageUnavailable
from oncue.domain.instants import MILLISECOND, SECOND, Duration
from oncue.domain.plain_text import printable
from oncue.domain.reference import RANDOM_BYTES, Reference
from oncue.domain.shown_url import shown_url
from oncue.services.spool import Waiting, waiting_in
from oncue.settings import Settings
from oncue.storage.open import open_archive, open_storage
from oncue.storage.port import Storage

TIME_LIMIT = Duration(10 * SECOND)
PROBE = "doctor"  # the first part of the key
SLOW = Duration(5 * SECOND)

REACH_IT = "Check the setting, that the service runs, and that this machine can reach it; of a folder, its disk."
LET_US_IN = "Set keys in the environment that may put, get and delete below this prefix, and create the bucket."
REACH_ARCHIVE = "Check --archive and the keys in the environment: until it works, old history is not dropped."
EMPTY_IT = "Repair storage, and keep a worker with this data directory running: it attaches them."


async def diagnose_storage(settings: Settings, clock: Clock) -> list[Diagnosis]:
    storage = open_storage(settings, clock)
    found = [] if not settings.storage and storage.is_new() else [await _probe(storage, clock)]
    if settings.archive:
        found.append(await _reach(open_archive(settings, clock)))
    spool = Path(settings.data_dir) / "spool"
    return [*found, *spooled(spool, await asyncio.to_thread(waiting_in, spool, clock.now()))]


async def _probe(storage: Storage, clock: Clock) -> Diagnosis:
    """Put, get and delete a small object."""
    key, asked = f"{PROBE}/{secrets.token_hex(RANDOM_BYTES)}", clock.monotonic()
    where = printable(shown_url(storage.url))
    if storage.is_new():  # an object would make it look like the right one
        return ok("storage", f"{where} is empty; if large values were stored before, check that it is mounted")
    try:
        async with asyncio.timeout(TIME_LIMIT / SECOND):
            await storage.put(key, PROBE.encode())
            await storage.get(Reference.to(key, PROBE.encode()))
            await storage.delete([key])
    except StorageRefused as no:
        return problem("storage", str(no), LET_US_IN)
    except (StorageUnavailable, ObjectLost) as no:
        return problem("storage", str(no), REACH_IT)
    except TimeoutError:
        return problem("storage", f"no answer from {where} within {TIME_LIMIT // SECOND} s", REACH_IT)
    took = Duration(clock.monotonic() - asked)
    seen = f"stored, read and deleted an object in {took / MILLISECOND:.1f} ms at {where}"
    if took < SLOW:
        return ok("storage", seen)
    return warning("storage", seen, "Check the load of the service, and the network in between.")


async def _reach(archive: Storage) -> Diagnosis:
    """Only read: an archive may be one that deletes nothing."""
    try:
        async with asyncio.timeout(TIME_LIMIT / SECOND):
            await archive.size(f"{PROBE}/none")
    except (StorageRefused, StorageUnavailable, TimeoutError) as no:
        return problem("archive", str(no) or f"no answer within {TIME_LIMIT // SECOND} s", REACH_ARCHIVE)
    return ok("archive", f"{printable(shown_url(archive.url))} answers")


def spooled(folder: Path, waiting: Waiting) -> list[Diagnosis]:
    if not waiting.results:
        return []
    seen = (
        f"{waiting.results:,} results with {waiting.bytes:,} bytes wait in {printable(str(folder))}, "
        f"the oldest for {waiting.oldest // SECOND:,} s"
    )
    return [warning("spool", seen, EMPTY_IT)]
