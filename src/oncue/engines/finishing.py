"""Making the runs of a job follow it, in bites: what all engines share around their transactions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from oncue.domain.ids import JobId, RunId, WorkerId
from oncue.domain.job import Job
from oncue.domain.run import State
from oncue.engines.bites import BITE, BITES_AT_ONCE
from oncue.engines.port import Cancelled, Jobs

NOTHING_LEFT = Cancelled()


class Bite(msgspec.Struct, frozen=True):
    """The result of one transaction. `purge`: the job is done, and the rest of it may be deleted."""

    stopped: tuple[RunId, ...] = ()
    told: tuple[tuple[RunId, WorkerId], ...] = ()
    done: bool = True
    purge: bool = False

    def and_then(self, later: Bite) -> Bite:
        told = dict(self.told) | dict(later.told)
        return Bite(self.stopped + later.stopped, tuple(told.items()), later.done, later.purge)

    def answer(self, left: Cancelled = NOTHING_LEFT, final: State | None = None, job: Job | None = None) -> Cancelled:
        """Answer the caller. `left`: runs that finishing the job stopped. `final`: how a one-shot had ended before.
        `job`: as it is now.
        """
        told = dict(self.told) | dict(left.told)
        return Cancelled(self.stopped + left.stopped, tuple(told.items()), final, job)


async def take_bites(next_bite: Callable[[], Awaitable[Bite]]) -> Bite:
    """Take a few bites and return their sum: schedulers do the rest."""
    taken = Bite(done=False)
    for _ in range(BITES_AT_ONCE):
        taken = taken.and_then(await next_bite())
        if taken.done:
            break
    return taken


async def purge_some(jobs: Jobs, job_id: JobId, forget: Callable[[], Awaitable[object]]) -> None:
    """Purge a part of a job whose runs have all ended. `forget` removes it from the unfinished jobs."""
    for _ in range(BITES_AT_ONCE):
        if not await jobs.purge(job_id, BITE):
            break
    if await jobs.read(None, job_id) is None:
        await forget()
