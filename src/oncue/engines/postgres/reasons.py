"""Why PostgreSQL is unavailable, in words for operators instead of the driver's names."""

from __future__ import annotations

import socket

import asyncpg

from oncue.engines.postgres.hosts import NoHost
from oncue.engines.reasons import Kinds, worded

# The first match counts; later ones are more general.
_WORDS: tuple[tuple[Kinds, str], ...] = (
    ((TimeoutError, asyncpg.QueryCanceledError, asyncpg.LockNotAvailableError), "no answer in time"),
    (ConnectionRefusedError, "the connection was refused: no server listens there"),
    (socket.gaierror, "no such host name"),
    (FileNotFoundError, "no such socket or file"),
    (asyncpg.TooManyConnectionsError, "the server has no free connection"),
    (asyncpg.DiskFullError, "the disk is full"),
    (asyncpg.OutOfMemoryError, "the server is out of memory"),
    (asyncpg.CannotConnectNowError, "the server is starting up, shutting down or recovering"),
    ((asyncpg.AdminShutdownError, asyncpg.CrashShutdownError), "the server is shutting down"),
    (
        (asyncpg.ReadOnlySQLTransactionError, asyncpg.exceptions.TargetServerAttributeNotMatched),
        "the server is read-only",
    ),
    (asyncpg.InvalidPasswordError, "the password is wrong"),
    (asyncpg.InvalidAuthorizationSpecificationError, "the server refused this user"),
    (asyncpg.InvalidCatalogNameError, "the database does not exist on the server"),
    ((ConnectionError, asyncpg.PostgresConnectionError, asyncpg.InterfaceError), "the connection was lost"),
    (asyncpg.IdleInTransactionSessionTimeoutError, "the connection was lost"),
    (asyncpg.InternalClientError, "the connection was lost"),
)


def reason(away: BaseException) -> str:
    """Return what an operator can act on, with the server's own message, up to one line."""
    if isinstance(away, NoHost):
        return "; ".join(f"{host}: {reason(no)}" for host, no in away.why.items())
    if isinstance(away, ConnectionError) and "rejected SSL" in str(away):
        return "the server offers no TLS, which `sslmode` demands"
    if isinstance(away, asyncpg.ProtocolViolationError) and "startup parameter" in str(away):
        return "PgBouncer is there, which takes no options at login: add ?prepared_statements=off to the URL"
    return worded(away, _WORDS, "the connection was lost", "PostgreSQL says")
