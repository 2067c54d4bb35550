"""What the server is, and the processes that run on its database."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """The server's version, settings that concern its clients, and its time."""

    version: str
    engine: str
    """the kind of its database: `sqlite` or `postgres`"""
    schema: int
    """the newest migration that this version knows"""
    time: datetime
    """what its clock says now"""
    roles: tuple[str, ...] = ()
    """the roles that a key may have"""
    read_only: bool = False
    """whether the caller may only read, as a viewer"""
    retention: dict[str, str] = {}
    """how long what is kept: `runs`, with their logs and the occurrence history; `idempotency_keys`; `job_keys`"""
    limits: dict[str, int | None] = {}
    """the largest values that are accepted; null: no limit"""
    features: dict[str, Any] = {}
    """`storage`: large values go to a `folder` or a `bucket`; `archive`: whether history is archived before it is \
dropped, as set for this process; `notifications`: the channels of notices"""


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """A process of oncue."""

    process_id: UUID
    role: str
    """`api`, `scheduler`, `worker`, or `up`: all of them in one"""
    version: str | None = None
    schema: int | None = None
    """the newest migration that it knows"""
    host: str | None = None
    started_at: datetime | None = None
    seen_at: datetime | None = None
    """its last heartbeat"""
    alive: bool = False
    """whether that was less than 30 seconds ago; a process that was killed stays in the list for an hour"""
