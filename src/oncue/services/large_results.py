"""Put large results into object storage before their runs are settled.

The slot of such a run is free again, while the run still counts as running under the worker's heartbeat. While storage
is unavailable the put is repeated; then the run ends without its result, which goes to the spool.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from oncue.clock import Clock
from oncue.domain.errors import StorageRefused, StorageUnavailable, StoreUnavailable
from oncue.domain.instants import SECOND, Duration, Instant
from oncue.domain.reference import RANDOM_BYTES, Kind, Reference, object_key
from oncue.domain.run import Claimed, Settlement
from oncue.engines.port import Engine, StoredObject
from oncue.log import log
from oncue.services.spool import Spool
from oncue.storage.port import Storage

FIRST_PAUSE = Duration(SECOND // 2)
LONGEST_PAUSE = Duration(5 * SECOND)
MOST_BYTES = 256 * 1024 * 1024  # held here; beyond that a result that cannot be put at once goes to the spool


class LargeResults:
    def __init__(
        self,
        engine: Engine,
        storage: Storage,
        clock: Clock,
        spool: Spool,
        patience: Duration,
        settle: Callable[[Settlement], None],
    ) -> None:
        self._engine = engine
        self._storage = storage
        self._clock = clock
        self._spool = spool
        self._patience = patience
        self._settle = settle
        self._held = 0
        self._hurried = asyncio.Event()
        self._keeping: dict[asyncio.Task[None], Claimed] = {}
        self._putting: set[asyncio.Future[None]] = set()

    def __len__(self) -> int:
        return len(self._keeping)

    def known(self) -> Iterable[Claimed]:
        """Return the runs whose results are not in storage yet."""
        return self._keeping.values()

    def add(self, ended: Settlement) -> None:
        """Take a settlement whose result is too large for the database; `settle` gets it later, with a reference."""
        task = asyncio.get_running_loop().create_task(self._keep(ended, ended.result or b""))
        self._keeping[task] = ended.run
        task.add_done_callback(self._keeping.pop)

    def hurry(self) -> None:
        """Wait no longer for storage: this process ends soon."""
        self._hurried.set()
        for putting in list(self._putting):
            putting.cancel()

    async def _keep(self, ended: Settlement, content: bytes) -> None:
        run = ended.run
        key = object_key(Kind.RESULT, run.uid, self._clock.now(), secrets.token_bytes(RANDOM_BYTES))
        reference = await asyncio.to_thread(Reference.to, key, content)
        row = StoredObject(key, run.uid, run.run_id, Kind.RESULT, reference.size)
        self._held += reference.size
        try:
            if await self._put(row, content):
                self._settle(replace(ended, result=reference.encoded()))
                return
            spooled = await self._spool.add(run, reference, content)
        except Exception:
            log.exception("A result could not be kept", kind="result_lost", run_id=str(run.run_id))
            spooled = False
        finally:
            self._held -= reference.size
        log.error(
            "A result was not put into object storage; its run has succeeded without it",
            kind="result_not_kept",
            run_id=str(run.run_id),
            bytes=reference.size,
            spooled=spooled,
        )
        self._settle(replace(ended, result=replace(reference, key="").encoded()))

    async def _put(self, row: StoredObject, content: bytes) -> bool:
        """Put until it is there, the patience is at its end, or storage refuses us."""
        until, pause, told = self._clock.monotonic() + self._patience, FIRST_PAUSE, False
        while not self._hurried.is_set():
            store_away = False
            try:
                await self._stoppable(row, content)
                return True
            except StorageRefused as refused:
                log.error("Object storage refuses us", kind="storage_refused", why=str(refused))
                return False
            except StoreUnavailable:
                store_away = True  # the run could not be settled either
            except StorageUnavailable as away:
                if not told:
                    log.warning("Object storage is unavailable; retrying", kind="storage_away", why=str(away))
                told = True
            except asyncio.CancelledError:
                if not self._hurried.is_set():
                    raise
            impatient = self._held > MOST_BYTES or self._clock.monotonic() + pause > until
            if impatient and not store_away:
                return False
            await self._rest(pause)
            pause = Duration(min(2 * pause, LONGEST_PAUSE))
        return False

    async def _stoppable(self, row: StoredObject, content: bytes) -> None:
        putting = asyncio.ensure_future(self._put_once(row, content))
        self._putting.add(putting)
        try:
            await putting
        finally:
            self._putting.discard(putting)

    async def _put_once(self, row: StoredObject, content: bytes) -> None:
        await self._engine.objects.add([row], self._clock.now())
        await self._storage.put(row.key, content)

    async def _rest(self, pause: Duration) -> None:
        until = Instant(self._clock.monotonic() + pause)
        while not self._hurried.is_set() and self._clock.monotonic() < until:
            await self._clock.sleep(Duration(min(pause, SECOND // 4)))
