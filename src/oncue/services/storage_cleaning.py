"""Delete objects that nothing refers to: those of purged and dropped runs, and what killed processes have left."""

from __future__ import annotations

from oncue.clock import Clock
from oncue.domain.errors import StorageRefused, StorageUnavailable
from oncue.domain.instants import MINUTE, SECOND, Duration
from oncue.engines.port import LOOKED_AT_ONCE, Engine
from oncue.log import log
from oncue.storage.port import Storage

TURN = "storage"
EVERY = Duration(MINUTE)
LOOK_INTERVAL = Duration(10 * SECOND)  # how often this process tries to take a turn
BITES = 10  # of LOOKED_AT_ONCE objects, in one turn


class StorageCleaning:
    name = "storage-cleaning"

    def __init__(self, engine: Engine, storage: Storage, clock: Clock) -> None:
        self._engine = engine
        self._storage = storage
        self._clock = clock

    async def run_once(self) -> Duration:
        if await self._engine.maintenance.take_turn(TURN, self._clock.now(), EVERY) is not None:
            try:
                await self._clean()
            except (StorageUnavailable, StorageRefused) as away:
                log.warning("Objects could not be deleted; retrying", kind="storage_away", why=str(away))
        return LOOK_INTERVAL

    async def _clean(self) -> None:
        """First delete the object, then forget it: a process that is killed in between only repeats the deletion."""
        for _ in range(BITES):
            looked = await self._engine.objects.look(self._clock.now())
            if looked.unused:
                await self._storage.delete(looked.unused)
                await self._engine.objects.forget(looked.unused)
                log.info("Deleted objects that nothing refers to", kind="objects_deleted", objects=len(looked.unused))
            if looked.seen < LOOKED_AT_ONCE:
                break
