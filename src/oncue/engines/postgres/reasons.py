"""Why PostgreSQL is unavailable, in words for operators instead of the driver's names."""

from __future__ import annotations

import socket

import asyncpg

from oncue.engines.reasons import Kinds, worded

# The first match counts; later ones are more general.
_WORDS: tuple[tuple[Kinds, str], ...] = (
    ((TimeoutError, asyncpg.QueryCanceledError, asyncpg.LockNotAvailableError), "no answer in time"),
    (ConnectionRefusedError, "nobody listens there: the connection was refused"),
    (socket.gaierror, "no such host name"),
    (FileNotFoundError, "no such socket or file"),
    (asyncpg.TooManyConnectionsError, "it has no connection left"),
    (asyncpg.DiskFullError, "its disk is full"),
    (asyncpg.OutOfMemoryError, "it has no memory left"),
    (asyncpg.CannotConnectNowError, "it is starting up, shutting down or recovering"),
    ((asyncpg.AdminShutdownError, asyncpg.CrashShutdownError), "it is shutting down"),
    (
        (asyncpg.ReadOnlySQLTransactionError, asyncpg.exceptions.TargetServerAttributeNotMatched),
        "it is read-only",
    ),
    (asyncpg.InvalidPasswordError, "the password is wrong"),
    (asyncpg.InvalidAuthorizationSpecificationError, "it does not let this user in"),
    (asyncpg.InvalidCatalogNameError, "the database does not exist there"),
    ((ConnectionError, asyncpg.PostgresConnectionError, asyncpg.InterfaceError), "the connection was lost"),
    (asyncpg.IdleInTransactionSessionTimeoutError, "the connection was lost"),
    (asyncpg.InternalClientError, "the connection was lost"),
)


def reason(away: BaseException) -> str:
    """Return what an operator can act on, with the server's own message, up to one line."""
    return worded(away, _WORDS, "the connection was lost", "it says")
