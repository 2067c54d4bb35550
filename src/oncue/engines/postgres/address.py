"""The URL of a PostgreSQL: our own parameters, and the rest, which is for the driver."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import asyncpg
import msgspec

from oncue.domain.errors import Invalid

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
def unreadable_as_invalid() -> Iterator[None]:
    """Report an invalid URL. Quotes only those parts of it that cannot be part of the password."""
    try:
        yield
    except ValueError as wrong:
        known = f" ({wrong})" if isinstance(wrong, asyncpg.ClientConfigurationError) else ""
        raise Invalid.of(
            "engine",
            "bad_engine",
            f"this URL cannot be read{known}: write postgresql://user:password@host:port/database, and special "
            "characters of the password as %XX",
        ) from None
