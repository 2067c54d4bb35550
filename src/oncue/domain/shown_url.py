"""Show a URL without its secrets: the password, and each parameter that is not known to be harmless."""

from __future__ import annotations

import re
from typing import Final

from oncue.domain.masking import MASK

_OF_POSTGRES: Final = frozenset(
    (
        *("prepared_statements", "schema", "listen"),  # ours
        *("host", "port", "user", "dbname", "database", "service", "application_name", "target_session_attrs"),
        *("sslmode", "ssl", "sslcert", "sslkey", "sslrootcert", "sslcrl", "sslnegotiation", "passfile"),  # files
        *("ssl_min_protocol_version", "ssl_max_protocol_version", "krbsrvname", "gsslib"),
    )
)
_OF_MAIL: Final = frozenset(("tls", "secret"))  # the name of a secret
_HARMLESS: Final = {"postgresql": _OF_POSTGRES, "postgres": _OF_POSTGRES, "smtp": _OF_MAIL, "smtps": _OF_MAIL}

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^?#]*)(?:\?([^#]*))?(#.*)?", re.DOTALL)
_HOST = r"(?:\[[^\[\]]*\]|[^:,\[\]]*)(?::[0-9]*)?"
_HOSTS = re.compile(f"{_HOST}(?:,{_HOST})*")


def shown_url(url: str) -> str:
    """A URL that cannot be understood is not shown at all: its password could be anywhere."""
    found = _URL.fullmatch(url)
    if found is None:
        return MASK if set(url) & set(":@?") else url
    scheme, authority, path, query, fragment = found.groups()
    user, at, hosts = authority.rpartition("@")
    if not _HOSTS.fullmatch(hosts) or _is_cut(url, found.end(2)):
        return MASK
    name, _, password = user.partition(":")
    shown = f"{scheme}://{f'{name}:{MASK}' if password else user}{at}{hosts}{path}"
    if query:
        shown += "?" + "&".join(_parameter(one, _HARMLESS.get(scheme, frozenset())) for one in query.split("&"))
    return f"{shown}#{MASK}" if fragment else shown


def _is_cut(url: str, end: int) -> bool:
    """Whether a password with an unescaped `/`, `?` or `#` may have ended what looks like the hosts."""
    before, at, _ = url.rpartition("@")
    return at != "" and len(before) >= end and ":" in before.partition("://")[2]


def _parameter(text: str, harmless: frozenset[str]) -> str:
    """Without a name the text may be the rest of a password with an unescaped `&`."""
    name, equals, value = text.partition("=")
    if not equals:
        return MASK if text else text
    return text if name in harmless or not value else f"{name}={MASK}"
