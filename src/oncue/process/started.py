"""What a role says about its own life: what has started, and where its database is."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

import msgspec

from oncue import __version__
from oncue.engines.port import Engine
from oncue.services.supervisor import WorkerSupervisor
from oncue.settings import Settings
from oncue.tracing.open import can_export

SQLITE = "sqlite:///"


class Started(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a role has started with. It is logged: no field may hold a secret."""

    version: str
    database: str
    schema: int
    address: str | None = None
    tasks: tuple[str, ...] = ()
    schedules: tuple[str, ...] = ()  # that code declares, in words
    queues: tuple[str, ...] = ()
    not_taken: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)  # queues, and the tasks that name them
    slots: dict[str, int] = msgspec.field(default_factory=dict)
    metrics: str = "off"
    traces: str = "off"


def started(engine: Engine, settings: Settings, address: str | None = None) -> Started:
    database = shown_database(settings.engine)
    return Started(
        *(__version__, database, engine.schema, address),
        metrics=shown_metrics(settings, address),
        traces="on" if can_export(os.environ) else "off",
    )


def started_with_worker(
    base: Started, settings: Settings, supervisor: WorkerSupervisor, schedules: tuple[str, ...] = ()
) -> Started:
    slots = {"async": settings.concurrency, "threads": settings.threads, "processes": settings.processes}
    queues = supervisor.queues
    return msgspec.structs.replace(
        base,
        tasks=supervisor.tasks,
        schedules=schedules,
        queues=queues.taken,
        not_taken=queues.not_taken,
        slots=slots,
    )


def shown_database(url: str) -> str:
    """Return the kind of the database and where it is: without user, password and options."""
    if url.startswith(SQLITE):
        return f"sqlite {url.removeprefix(SQLITE)}"
    parts = urlsplit(url)
    return f"postgresql {parts.netloc.rpartition('@')[2]}{parts.path}"


def shown_metrics(settings: Settings, address: str | None) -> str:
    """Return where a role serves its metrics: on the port of its API, on one of their own, or nowhere."""
    if settings.metrics_port:
        return f"/metrics on port {settings.metrics_port}"
    return "off" if address is None else "/metrics"
