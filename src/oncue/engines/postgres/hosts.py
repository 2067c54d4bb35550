"""The hosts of a URL, and what the server at one says of itself: which cluster it belongs to, and its timeline."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import asyncpg
import msgspec

from oncue.domain.errors import OldPrimary
from oncue.engines.postgres.connecting import Apart
from oncue.engines.sql import statements

_SQL = statements("oncue.engines.postgres")

_NOTE = re.compile(r"oncue: timeline (\d{1,9}) is newer")

# What a server answers that keeps these from us, or is not quite PostgreSQL.
_KEPT_FROM_US = (
    asyncpg.InsufficientPrivilegeError,
    asyncpg.FeatureNotSupportedError,
    asyncpg.UndefinedFunctionError,
)


class Identity(msgspec.Struct, frozen=True):
    """`system`: of the cluster; a replica has that of its primary. `timeline`: rises with each promotion. `started`: a
    server that was started anew may have been replaced meanwhile.
    """

    system: int
    timeline: int
    started: datetime

    def is_older_than(self, other: Identity | None) -> bool:
        """Return whether the other was promoted since. Clusters cannot be compared."""
        return other is not None and self.system == other.system and self.timeline < other.timeline


class Answer(NamedTuple):
    """A server that accepts writes. `identity` None: it does not say."""

    host: str  # the URL with this host alone
    connection: Apart
    identity: Identity | None
    newer: int = 0  # the timeline of a server that was promoted since, as other processes note there

    def is_older_than(self, other: Identity | None) -> bool:
        return self.identity is not None and self.identity.is_older_than(other)


class NoHost(ConnectionError):
    """None of several hosts can be used. `why`: of each, by its name."""

    def __init__(self, why: dict[str, Exception]) -> None:
        super().__init__("; ".join(f"{host}: {str(no) or 'no answer in time'}" for host, no in why.items()))
        self.why = why


def hosts_of(url: str) -> tuple[str, ...]:
    """Return a URL for each host, in their order. The driver gives all of them together a single time limit."""
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    user, at, named = parts.netloc.rpartition("@")
    hosts, ports = (named or options.get("host", "")).split(","), options.get("port", "").split(",")
    if len(hosts) == 1 or len(ports) not in (1, len(hosts)):
        return (url,)
    return tuple(
        urlunsplit(
            parts._replace(
                netloc=f"{user}{at}{host}" if named else parts.netloc,
                query=urlencode(
                    options | ({} if named else {"host": host}) | ({"port": ports[n % len(ports)]} if ports[0] else {})
                ),
            )
        )
        for n, host in enumerate(hosts)
    )


def name_of(host: str) -> str:
    """Return what operators call it: host and port, without user and password."""
    parts = urlsplit(host)
    return parts.netloc.rpartition("@")[2] or dict(parse_qsl(parts.query)).get("host", "") or "this machine"


async def identify(host: str, connection: Apart, bounced: bool) -> Answer:
    """Ask the server. TargetServerAttributeNotMatched: it accepts no writes, although it seemed to."""
    try:
        if bounced:  # each half of a statement could go to another server
            async with connection.transaction():
                row = await connection.fetchrow(_SQL["identity"])
        else:
            row = await connection.fetchrow(_SQL["identity"])
    except asyncpg.ObjectNotInPrerequisiteStateError as no:
        raise asyncpg.exceptions.TargetServerAttributeNotMatched("the server is in recovery") from no
    except _KEPT_FROM_US:
        return Answer(host, connection, None)
    assert row is not None, "a row of functions"
    return Answer(host, connection, *understood(row))


def understood(row: Iterable[Any]) -> tuple[Identity, int]:
    """Read what a server says of itself, and the highest timeline that was noted there as newer."""
    system, segment, started, notes = row
    noted = max(map(int, _NOTE.findall(notes or "")), default=0)
    return Identity(system, int(segment[:8], 16), started), noted


def note(timeline: int) -> str:
    """Return the name of a session that says at an old primary which timeline was promoted since."""
    return f"oncue: timeline {timeline} is newer"


def old_primary(host: str, timeline: int, newest: int) -> OldPrimary:
    return OldPrimary(
        f"old_primary: PostgreSQL at {name_of(host)} accepts writes on timeline {timeline}, but a server with timeline "
        f"{newest} of the same cluster was promoted: stop this one and rebuild it as a replica of the new primary "
        "(pg_rewind or pg_basebackup). If it was restored on purpose, restart the processes of oncue"
    )
