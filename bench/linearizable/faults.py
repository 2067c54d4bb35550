"""Faults that are planted in a server, to see that the search finds them: in one of so many calls, in each process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from itertools import count
from typing import Any

from oncue.api import editing, jobs
from oncue.domain.errors import Stale
from oncue.engines.postgres.jobs import PostgresJobs
from oncue.engines.sqlite.jobs import SqliteJobs

FORGOTTEN_COMMITS = "forgotten commits"  # no fault of a process: PostgreSQL acknowledges what a crash takes
Apply = Callable[[], Awaitable[bool]]


def every(nth: int) -> Callable[[], bool]:
    """Whether it is the nth time."""
    numbers = count(1)
    return lambda: next(numbers) % nth == 0


def stale_read() -> None:
    """A read by the key shows what the one before it found, as from a replica that lags."""
    keyed, before, now_and_then = jobs.keyed, dict[str, Any](), every(3)

    async def stale(api: Any, key: str, caller: Any) -> Any:
        found = await keyed(api, key, caller)
        shown = before.get(key, found) if now_and_then() else found
        before[key] = found
        return shown

    jobs.keyed = stale


def lost_change() -> None:
    """A change is acknowledged and not written."""

    async def lose(apply: Apply) -> bool:
        return True

    _instead_of_apply(40, lose)


def late_change() -> None:
    """A change is acknowledged before it is written."""
    tasks = set[asyncio.Task[Any]]()

    async def write(apply: Apply) -> None:
        await asyncio.sleep(0.03)
        await apply()

    async def later(apply: Apply) -> bool:
        tasks.add(asyncio.create_task(write(apply)))
        return True

    _instead_of_apply(20, later)


def _instead_of_apply(nth: int, other: Callable[[Apply], Awaitable[bool]]) -> None:
    for engine in (PostgresJobs, SqliteJobs):
        apply, now_and_then = engine.apply, every(nth)

        async def planted(
            *given: Any, apply: Any = apply, now_and_then: Callable[[], bool] = now_and_then, **how: Any
        ) -> bool:
            real = partial(apply, *given, **how)
            return await (other(real) if now_and_then() else real())

        engine.apply = planted


def false_refusal() -> None:
    """A 412 for an If-Match that matches."""
    check, now_and_then = editing.check_match, every(25)

    def refuse(request: Any, job: Any) -> None:
        check(request, job)
        if "if-match" in request.headers and now_and_then():
            raise Stale("planted")

    editing.check_match = refuse


def unchecked_match() -> None:
    """An If-Match that does not match is not noticed."""
    check, now_and_then = editing.check_match, every(3)

    def admit(request: Any, job: Any) -> None:
        if not now_and_then():
            check(request, job)

    editing.check_match = admit


def anothers_change() -> None:
    """The answer to a change shows the job as it is by then, with what others made of it."""
    shown = jobs.shown

    async def reading(api: Any, snap: Any, caller: Any, *given: Any, **how: Any) -> Any:
        await asyncio.sleep(0.003)  # as long as a busy machine takes
        return await shown(api, await api.engine.jobs.read(None, snap.job.job_id) or snap, caller, *given, **how)

    jobs.shown = editing.shown = reading


def another_run() -> None:
    """A run that is asked for again with the same key is another one."""

    async def anew(api: Any, request: Any, caller: Any, body: Any, make: Any, **how: Any) -> Any:
        return await make(api.new_id(api.clock.now()))

    jobs.idempotent = anew


FAULTS: Mapping[str, Callable[[], None]] = {
    "stale read": stale_read,
    "lost change": lost_change,
    "late change": late_change,
    "412 that should be 200": false_refusal,
    "200 that should be 412": unchecked_match,
    "another's change": anothers_change,
    "another run": another_run,
}


def plant(name: str) -> None:
    FAULTS[name]()
