"""What a role tells those who watch it: its metrics, and whether it is alive and ready."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from oncue import __version__, logs
from oncue.clock import SystemClock
from oncue.domain.instants import SECOND, Duration
from oncue.domain.placement import DEFAULT_QUEUE
from oncue.engines.port import Engine
from oncue.log import log
from oncue.metrics import table
from oncue.metrics.exposed import Exposed
from oncue.metrics.metric import Roles
from oncue.metrics.numbers import Numbers
from oncue.metrics.token import read_token
from oncue.services.loop import Loop
from oncue.services.supervisor import WorkerSupervisor
from oncue.settings import Settings

PLANNED_WITHIN = Duration(10 * SECOND)  # else a scheduler is not ready

Check = Callable[[], Awaitable[str | None]]  # tells what is wrong, if anything is


def exposing(settings: Settings, clock: SystemClock, *roles: Roles) -> Exposed:
    """Return what this process tells of itself. Invalid: not with this metrics token."""
    read_token(settings)  # before anything is opened
    exposed = Exposed(clock, *roles, queues=settings.queues or (DEFAULT_QUEUE,), counting=settings.counting)
    exposed.numbers.read(table.CLOCK_OFFSET, lambda: {(): clock.ahead() / SECOND})
    count_log_lines(exposed.numbers)
    return exposed


def count_log_lines(numbers: Numbers) -> None:
    """Tell how many lines this process logs."""
    numbers.read(table.LOG_LINES, lambda: {(level,): n for level, n in logs.bursts.lines.copy().items()})
    numbers.read(table.LOG_SUPPRESSED, lambda: {(): logs.bursts.suppressed})


def tell_build(role: str, engine: Engine, exposed: Exposed) -> None:
    labels = (__version__, role, engine.name, str(engine.schema))
    exposed.numbers.read(table.BUILD, lambda: {labels: 1})


@asynccontextmanager
async def metrics_at(
    listener: socket.socket | None,
    engine: Engine,
    clock: SystemClock,
    settings: Settings,
    exposed: Exposed,
    *,
    cluster: bool = False,
) -> AsyncIterator[list[Check]]:
    """Serve metrics on their own port during the block, if they have one; yields where to add what `/readyz` checks."""
    checks: list[Check] = []
    if listener is None:
        yield checks
        return
    from oncue.api.metrics_port import serving_metrics  # only here: it is a web server

    async with serving_metrics(listener, exposed, engine, clock, settings, checks, cluster=cluster) as address:
        log.info("Metrics are served", kind="metrics", address=f"{address}/metrics")
        yield checks


def has_started(complete: asyncio.Event) -> Check:
    async def check() -> str | None:
        return None if complete.is_set() else "The server is starting."

    return check


def can_write(engine: Engine, clock: SystemClock) -> Check:
    """Return a check that the database keeps writes; StoreUnavailable: it does not."""
    from oncue.api.shared.readiness import Readiness

    return Readiness(engine, clock).check


def has_planned(planning: Loop, clock: SystemClock) -> Check:
    async def check() -> str | None:
        recently = planning.ok_at is not None and clock.monotonic() - planning.ok_at < PLANNED_WITHIN
        return None if recently else "The scheduler has not planned for 10 seconds."

    return check


def has_worker(supervisor: WorkerSupervisor) -> Check:
    async def check() -> str | None:
        return supervisor.unready()

    return check
