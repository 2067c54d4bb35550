"""Find the server's address and the API key: arguments, the environment, contexts, the local defaults."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from oncue.client.contexts import Context, Contexts, read_contexts

USUAL_URL = "http://127.0.0.1:8470"
KEY_FILE = "admin.key"
_HERE = frozenset({"localhost", "127.0.0.1", "::1"})


class Address(msgspec.Struct, frozen=True):
    url: str
    key: str | None

    @property
    def local(self) -> bool:
        return urlsplit(self.url).hostname in _HERE

    def __repr__(self) -> str:  # keeps the key out of logs
        return f"Address({self.url!r})"


def find_address(url: str | None = None, key: str | None = None, context: str | None = None) -> Address:
    """Find address and key: of the arguments, else `ONCUE_URL` and `ONCUE_API_KEY`, else the context `ONCUE_CONTEXT` or
    the current one (`oncue login`), else of a local server.

    The key of a context is sent to the address of that context only, and the admin key of a local server (`admin.key`
    in `ONCUE_DATA_DIR`, or in `.oncue`) to this machine only.
    """
    known = read_contexts()
    chosen = known.named(context) if context else None
    named = url or (chosen.url if chosen else os.environ.get("ONCUE_URL"))
    if not named:
        chosen = _current(known)
    found = _checked(named or (chosen.url if chosen else USUAL_URL))
    given = key or (chosen.key if context and chosen else None) or os.environ.get("ONCUE_API_KEY")
    return Address(found, _sendable((given or "").strip() or _saved_key(found, known) or _local_key(found)))


def _current(known: Contexts) -> Context | None:
    name = os.environ.get("ONCUE_CONTEXT") or known.current
    return known.named(name) if name else None


def _checked(url: str) -> str:
    url = url.rstrip("/").removesuffix("/v1")  # which the paths of calls begin with
    if "@" in url:  # not repeated: it may be a password
        raise ValueError("the server's URL must not have a user or password: remove it, and set ONCUE_API_KEY")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url!r} is not the address of a server; write it like {USUAL_URL}")
    return url


def _sendable(key: str | None) -> str | None:
    if key is not None and not re.fullmatch(r"[!-~]+", key):  # not repeated: most of it may be right
        raise ValueError("the API key has spaces or characters that no key has: copy it again, as a single line")
    return key


def _saved_key(url: str, known: Contexts) -> str | None:
    """Return the key of the context with this address; of several, of the current one."""
    fitting = {name: one.key for name, one in known.contexts.items() if one.url == url}
    current = os.environ.get("ONCUE_CONTEXT") or known.current or ""
    return fitting.get(current) or next(iter(fitting.values()), None)


def _local_key(url: str) -> str | None:
    if not Address(url, None).local:
        return None
    try:
        return (Path(os.environ.get("ONCUE_DATA_DIR") or ".oncue") / KEY_FILE).read_text().strip() or None
    except OSError:
        return None
