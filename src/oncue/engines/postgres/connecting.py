"""Sessions: what the URL says, and which settings each has."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import asyncpg
import msgspec
from asyncpg.connect_utils import SessionAttribute

from oncue.domain.errors import Invalid
from oncue.domain.instants import SECOND, Duration

if TYPE_CHECKING:
    Apart = asyncpg.Connection[asyncpg.Record]
else:
    Apart = asyncpg.Connection

# Every table here is read through an index. A planner with statistics a minute old decides otherwise (a table that was
# empty then has a million rows now), and one sequential scan for a thousand keys costs half a second. A bitmap loses
# the index's order: the first five of a user's million runs would be found by sorting them all.
PLANNING = {"enable_seqscan": "off", "enable_bitmapscan": "off", "jit": "off"}

# Settings that we rely on and a role, a database or a server may have changed. `default_transaction_read_only` stays:
# an operator sets it to forbid writes for now. `search_path` is set once the schema of our tables is known: `Place`.
PINNED = {
    "default_transaction_isolation": "read committed",
    "default_transaction_deferrable": "off",
    "lock_timeout": "0",
    "idle_session_timeout": "0",
    "timezone": "UTC",
    "datestyle": "ISO, MDY",
    "intervalstyle": "postgres",
    "bytea_output": "hex",
    "standard_conforming_strings": "on",
    "extra_float_digits": "1",
}

# So that attempts to connect to a hanging server do not pile up. One takes four round trips, each up to a second.
CONNECT_TIMEOUT = Duration(6 * SECOND)

FIRST_OWN_TYPE = 16_384  # lower ids are PostgreSQL's own types, the same in every database of a version


_SCHEMA = re.compile("[a-z_][a-z0-9_]{0,62}")
_HOSTS = re.compile(r"[\w.\-\[\]:]+(,[\w.\-\[\]:]+)*")


class Address(msgspec.Struct, frozen=True):
    """`bounced`: PgBouncer in transaction mode is there, and no session outlives a transaction. `listen_url`: the same
    database past it, for the connection that gets hints. `schema` None: where the search_path leads.
    """

    url: str
    bounced: bool
    schema: str | None
    listen_url: str | None

    @property
    def hints_arrive(self) -> bool:
        return not self.bounced or self.listen_url is not None


def read_address(url: str) -> Address:
    with unreadable_as_invalid():
        parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    choice = options.pop("prepared_statements", "on")
    if choice not in ("on", "off"):
        raise Invalid.of("engine", "bad_engine", f"prepared_statements must be on or off, not {choice[:20]!r}")
    schema = options.pop("schema", None)
    if schema is not None and (not _SCHEMA.fullmatch(schema) or schema.startswith("pg_")):
        message = "schema must be lower-case letters, digits and _, like schema=oncue"
        raise Invalid.of("engine", "bad_engine", f"{message}, not {schema[:20]!r}")
    listen = options.pop("listen", None)
    if listen is not None and not _HOSTS.fullmatch(listen):
        message = "listen must be the host and port of PostgreSQL itself, like listen=db:5432"
        raise Invalid.of("engine", "bad_engine", f"{message}, not {listen[:20]!r}")
    rest = parts._replace(query=urlencode(options))
    user = rest.netloc.rpartition("@")[0]
    past = None if listen is None else urlunsplit(rest._replace(netloc=f"{user}@{listen}" if user else listen))
    return Address(urlunsplit(rest), choice == "off", schema, past)


@contextmanager
def unreadable_as_invalid(name: str = "engine") -> Iterator[None]:
    """Report an invalid URL. Quotes only those parts of it that cannot be part of the password."""
    try:
        yield
    except ValueError as wrong:
        known = f" ({wrong})" if isinstance(wrong, asyncpg.ClientConfigurationError) else ""
        raise Invalid.of(
            name,
            "bad_engine",
            f"this URL cannot be read{known}: write postgresql://user:password@host:port/database, and special "
            "characters of the password as %XX",
        ) from None


class _Remembered(NamedTuple):
    """In place of the driver's statement that reads types. Having a name says that it has replaced no other."""

    name: str = "remembered"


class Session(Apart):
    """A connection that knows the array types which earlier ones asked the server for.

    The driver asks on each new connection, at the first statement with such a parameter: 5 ms, more than all else that
    a new connection costs, and once more for each further type.
    """

    _known: dict[tuple[int, frozenset[int]], Any] = {}  # noqa: RUF012  shared on purpose

    async def _introspect_types(self, typeoids: set[int], timeout: float | None) -> tuple[Any, Any]:
        asked = (self.get_server_version().major, frozenset(typeoids))
        if asked in self._known:
            return self._known[asked], _Remembered()
        types, statement = await super()._introspect_types(typeoids, timeout)  # type: ignore[misc]  # it has no types
        if max(typeoids) < FIRST_OWN_TYPE:
            self._known[asked] = types
        return types, statement


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


class Place:
    """The schema of our tables. None: not known yet."""

    def __init__(self, schema: str | None) -> None:
        self.schema = schema

    @property
    def quoted(self) -> str:
        return '"' + (self.schema or "").replace('"', '""') + '"'

    @property
    def session(self) -> dict[str, str]:
        """The settings of a session that finds our tables, and no others."""
        return {} if self.schema is None else {"search_path": self.quoted}

    @property
    def channel(self) -> str:
        """Where our hints are sent. Its name is as it was before there were schemas, if tables are where they were."""
        if self.schema == "public":
            return "oncue"
        return f"oncue {_digest(self.schema or '')}"

    def channel_of(self, what: str) -> str:
        """Where hints of one topic, or for one worker, are sent: hints on other channels wake no listener of it."""
        return f"oncue {_digest(f'{self.channel} {what}')}"


def options(limit: Duration, bounced: bool, name: str, session: dict[str, str]) -> dict[str, Any]:
    """Behind PgBouncer (`?prepared_statements=off`) no setting or statement may outlive a transaction."""
    return {
        "timeout": min(limit, CONNECT_TIMEOUT) / SECOND,
        "statement_cache_size": 0 if bounced else 200,
        "server_settings": {"application_name": name, **({} if bounced else PINNED | session)},
        "target_session_attrs": SessionAttribute.read_write,
        "connection_class": Session,
    }


def limits(limit: Duration) -> dict[str, str]:
    """Return timeouts, so that the server, too, gives up abandoned work; and a statement a little sooner than we do.

    Otherwise a statement without a transaction might commit after its caller was told that the database is unavailable.
    """
    milliseconds = limit // 1000
    return {
        "statement_timeout": str(milliseconds * 9 // 10),
        "idle_in_transaction_session_timeout": str(milliseconds),
    }
