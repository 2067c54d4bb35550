"""Finish the change of a job that has many runs: all its runs follow its current definition and status.

All schedulers are equal: several may work on the same job, one batch at a time; and several jobs take turns.
"""

from __future__ import annotations

from oncue.clock import Clock
from oncue.domain.instants import MILLISECOND, SECOND, Duration
from oncue.engines.hints import after_stopping
from oncue.engines.port import Engine, Hint, Topic

POLL_INTERVAL = Duration(SECOND)  # meanwhile no run of such a job is claimed: there is no hurry
MIN_PAUSE = Duration(10 * MILLISECOND)  # between two passes, so that other writers get their turn
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
        return MIN_PAUSE if jobs else POLL_INTERVAL
