"""Letting the runs of a job follow it, in bites: what every engine does alike with what its transactions did."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from oncue.domain.ids import JobId, RunId, WorkerId
from oncue.domain.run import State
from oncue.engines.bites import BITE, BITES_AT_ONCE
from oncue.engines.port import Cancelled, Jobs

NOTHING_LEFT = Cancelled()


class Bite(msgspec.Struct, frozen=True):
    """What one transaction did. `purge`: it is done, and what is left may go."""

    stopped: tuple[RunId, ...] = ()
    told: tuple[tuple[RunId, WorkerId], ...] = ()
    done: bool = True
    purge: bool = False

    def and_then(self, later: Bite) -> Bite:
        told = dict(self.told) | dict(later.told)
        return Bite(self.stopped + later.stopped, tuple(told.items()), later.done, later.purge)

    def answer(self, left: Cancelled = NOTHING_LEFT, final: State | None = None) -> Cancelled:
        """`left`: what was stopped of what it had left over. `final`: how a one-shot had ended."""
        told = dict(self.told) | dict(left.told)
        return Cancelled(self.stopped + left.stopped, tuple(told.items()), final)


async def take_bites(next_bite: Callable[[], Awaitable[Bite]]) -> Bite:
    """A few, as one: what is left is for schedulers."""
    taken = Bite(done=False)
    for _ in range(BITES_AT_ONCE):
        taken = taken.and_then(await next_bite())
        if taken.done:
            break
    return taken


async def purge_some(jobs: Jobs, job_id: JobId, forget: Callable[[], Awaitable[object]]) -> None:
    """Of a job that is to be purged and all of whose runs have ended. `forget`: it is finished."""
    for _ in range(BITES_AT_ONCE):
        if not await jobs.purge(job_id, BITE):
            break
    if await jobs.read(None, job_id) is None:
        await forget()
