"""Forget users for good: their jobs, runs, dead letters, objects, archived files, and their names in the audit log.

All schedulers are equal: several may work on the same user, one bite at a time, and whoever is killed is followed by
another one. The note goes last.
"""

from __future__ import annotations

from oncue.clock import Clock
from oncue.domain.errors import ObjectLost, StorageRefused, StorageUnavailable
from oncue.domain.ids import NOTICES, JobId
from oncue.domain.instants import SECOND, Duration
from oncue.domain.run import State
from oncue.engines.hints import after_stopping
from oncue.engines.port import Engine, Forgotten, JobQuery, RunQuery
from oncue.engines.stored import ENDED
from oncue.log import log
from oncue.services.archive_forgetting import forget_in_archive
from oncue.services.archive_reading import progress_of
from oncue.storage.port import Storage

POLL_INTERVAL = Duration(2 * SECOND)
STILL_TRUSTED = Duration(10 * SECOND)  # how long an API may still accept a request with a key that was revoked
JOBS_AT_ONCE = 100
PURGED_AT_ONCE = 1_000  # rows of one job in one transaction
PURGES = 100  # of one job in one pass


class Forgetting:
    name = "forgetting"

    def __init__(self, engine: Engine, archive: Storage | None, clock: Clock) -> None:
        self._engine = engine
        self._archive = archive
        self._clock = clock

    async def run_once(self) -> Duration:
        for forgotten in await self._engine.forgetting.pending():
            try:
                await self._go_on(forgotten)
            except (StorageUnavailable, StorageRefused, ObjectLost) as away:
                log.error(
                    "A user cannot be forgotten in the archive yet; retrying",
                    kind="archive_failed",
                    user=forgotten.uid,
                    why=str(away),
                )
        return POLL_INTERVAL

    async def _go_on(self, forgotten: Forgotten) -> None:
        """Do a bite of the first part that has something left; when none has, forget the rest."""
        uid, now = forgotten.uid, self._clock.now()
        if await self._end_jobs(forgotten) or await self._end_notices(forgotten):
            return
        if await self._discard_letters(forgotten):
            return
        if await self._engine.forgetting.erase(uid) or 0 <= now - forgotten.asked_at < STILL_TRUSTED:
            return
        if not await self._left_archive(forgotten):
            return
        if await self._engine.forgetting.redact(forgotten) is not None:
            return
        await self._engine.forgetting.finish(uid)
        log.info("A user was forgotten", kind="user_forgotten", user=uid)

    async def _end_jobs(self, forgotten: Forgotten) -> bool:
        """Cancel open jobs, and purge those that have ended. False: there are none."""
        jobs = self._engine.jobs
        found = await self._engine.lists.jobs(JobQuery(uid=forgotten.uid, limit=JOBS_AT_ONCE))
        for row in found.items:
            if row.job.status not in ENDED:
                stopped = await jobs.cancel(None, row.job.job_id, self._clock.now())
                if stopped is not None:
                    await self._engine.signals.send(after_stopping(stopped))
            await self._purge(row.job.job_id)
        return bool(found.items) or found.next is not None

    async def _purge(self, job_id: JobId) -> None:
        for _ in range(PURGES):
            if not await self._engine.jobs.purge(job_id, PURGED_AT_ONCE):
                return

    async def _end_notices(self, forgotten: Forgotten) -> bool:
        """Cancel what is still to be told: notices belong to no job. False: there are none."""
        live = frozenset({State.WAITING, State.RUNNING})
        asked = RunQuery(uid=forgotten.uid, job_id=NOTICES, states=live, limit=JOBS_AT_ONCE)
        found = await self._engine.lists.runs(asked)
        for run in found.items:
            await self._engine.running.cancel(None, run.run_id, self._clock.now())
        return bool(found.items) or found.next is not None

    async def _discard_letters(self, forgotten: Forgotten) -> bool:
        """Discard dead letters whose job and run are gone. False: there are none."""
        found = await self._engine.lists.dead_letters(forgotten.uid, JOBS_AT_ONCE)
        await self._engine.history.discard(None, [run.run_id for run in found.items])
        return bool(found.items)

    async def _left_archive(self, forgotten: Forgotten) -> bool:
        if self._archive is not None:
            return await forget_in_archive(self._engine, self._archive, self._clock, forgotten.uid)
        if (await progress_of(self._engine)).head is None:
            return True
        log.error(
            "A user is to be forgotten in the archive: start a scheduler with the setting `archive`",
            kind="archive_failed",
            user=forgotten.uid,
        )
        return False
