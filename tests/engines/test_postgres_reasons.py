"""What users read when PostgreSQL is away: what is wrong, in plain words, and no names of the driver's."""

import socket

import asyncpg
import pytest

from oncue.domain.errors import StoreUnavailable
from oncue.engines.postgres.store import as_unavailable

SAYS: list[tuple[BaseException, str]] = [
    (ConnectionRefusedError(111, "Connect call failed ('127.0.0.1', 5432)"), "refused"),
    (socket.gaierror(-2, "Name or service not known"), "no such host name"),
    (TimeoutError(), "no answer in time"),
    (asyncpg.QueryCanceledError("canceling statement due to statement timeout"), "no answer in time"),
    (asyncpg.AdminShutdownError("terminating connection due to administrator command"), "shutting down"),
    (asyncpg.CannotConnectNowError("the database system is starting up"), "starting up"),
    (asyncpg.ReadOnlySQLTransactionError("cannot execute UPDATE in a read-only transaction"), "read-only"),
    (asyncpg.exceptions.TargetServerAttributeNotMatched("None of the hosts match"), "read-only"),
    (asyncpg.TooManyConnectionsError("sorry, too many clients already"), "no free connection"),
    (asyncpg.DiskFullError("could not extend file"), "disk is full"),
    (asyncpg.InvalidPasswordError('password authentication failed for user "a"'), "password is wrong"),
    (asyncpg.InvalidCatalogNameError('database "b" does not exist'), "does not exist"),
    (asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation"), "connection was lost"),
    (asyncpg.InternalClientError("cannot switch to state 12; another operation (2)"), "connection was lost"),
    (ConnectionResetError(104, "Connection reset by peer"), "connection was lost"),
    (OSError(113, "No route to host"), "No route to host"),
    (asyncpg.UndefinedFunctionError("no such\n  function"), "PostgreSQL says: no such function"),
]


@pytest.mark.parametrize(("away", "words"), SAYS, ids=[type(away).__name__ for away, _ in SAYS])
def test_the_reason_is_in_plain_words(away: Exception, words: str) -> None:
    with pytest.raises(StoreUnavailable) as said, as_unavailable(asyncpg.PostgresError):
        raise away

    assert words in str(said.value)
    assert type(away).__name__ not in str(said.value)
    assert "switch to state" not in str(said.value)
