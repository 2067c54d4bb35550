"""Plants one bug into this process, the one that HARNESS_BUG names. Python imports this by its name, from PYTHONPATH.

`PLANTED` is read by the harness as well, which has no bug.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any


def early() -> None:
    """Every process is a third of a second ahead of the store."""
    from oncue.clock import SystemClock

    real = SystemClock.now
    SystemClock.now = lambda clock: real(clock) + 300_000


def own_clock() -> None:
    """Every process goes by the clock of its host."""
    import time

    from oncue.clock import SystemClock

    SystemClock.now = lambda clock: time.time_ns() // 1_000


def forgotten_occurrences() -> None:
    """Planning leaves out every fifth run, and moves on."""
    from msgspec.structs import replace

    from oncue.services import scheduler

    real, count = scheduler.plan, iter(range(1_000_000))

    def forgetful(*given: Any) -> Any:
        found = real(*given)
        return replace(found, runs=tuple(run for run in found.runs if next(count) % 5))

    scheduler.plan = forgetful


def no_lanes() -> None:
    """Groups and concurrency keys hold nobody back."""
    from oncue.domain import job

    real = job.lanes_of
    job.lanes_of = lambda *given, **named: real(*given, **{**named, "group": None, "concurrency": None})


def replaced_at_once() -> None:
    """What is to be replaced is not waited for."""
    from oncue.domain import job
    from oncue.domain.lane import Lanes

    real = job.lanes_of

    def free(*given: Any, **named: Any) -> Any:
        return Lanes() if named["recurring"] and named["overlap"] == "replace" else real(*given, **named)

    job.lanes_of = free


def cancelled_and_started() -> None:
    """A function that has not begun when its run is cancelled begins all the same, a second later."""
    from oncue.executors.functions import LoopExecutor

    real = LoopExecutor.run
    begun = set[Any]()

    async def late(executor: Any, work: Any) -> Any:
        async def later() -> Any:
            await asyncio.sleep(1)
            return await real(executor, work)

        task = asyncio.create_task(later())
        begun.add(task)
        return await asyncio.shield(task)

    LoopExecutor.run = late


def retried_at_once() -> None:
    """An attempt that is over its time is settled, and goes on."""
    from oncue.executors.functions import LoopExecutor

    real = LoopExecutor.run
    begun = set[Any]()

    async def left(executor: Any, work: Any) -> Any:
        task = asyncio.create_task(real(executor, work))
        begun.add(task)
        return await asyncio.shield(task)

    LoopExecutor.run = left


def lost_notices() -> None:
    """Of three ends that somebody wants to be told of, one is not told."""
    from oncue.engines import known_defaults

    real, count = known_defaults.notices, iter(range(1_000_000))
    known_defaults.notices = lambda *given: real(*given) if next(count) % 3 else None


PLANTED: dict[str, Callable[[], None]] = {
    "early": early,
    "own clock": own_clock,
    "forgotten occurrences": forgotten_occurrences,
    "no lanes": no_lanes,
    "replaced at once": replaced_at_once,
    "cancelled and started": cancelled_and_started,
    "retried at once": retried_at_once,
    "lost notices": lost_notices,
}

if bug := os.environ.get("HARNESS_BUG"):
    PLANTED[bug]()
