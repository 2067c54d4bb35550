"""Finishes what was begun with a job by a process that is gone: all its runs follow its status.

No scheduler is special: several may finish the same job, each a bite at a time.
"""

from __future__ import annotations

from oncue.clock import Clock
from oncue.domain.instants import SECOND, Duration
from oncue.engines.hints import after_stopping
from oncue.engines.port import Engine, Hint, Topic

SELDOM = Duration(5 * SECOND)  # whoever is not cut off finishes it by itself
BATCH = 100  # jobs in one pass


class Finishing:
    name = "finishing"

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock

    async def run_once(self) -> Duration:
        jobs = await self._engine.jobs.unfinished(BATCH)
        for job_id in jobs:
            answer = await self._engine.jobs.finish(job_id, self._clock.now())
            await self._engine.signals.send([*after_stopping(answer), Hint(Topic.RUNS)])
        return Duration(0) if len(jobs) == BATCH else SELDOM
