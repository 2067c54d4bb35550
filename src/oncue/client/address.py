"""Find the server's address and the API key: arguments, the environment, the server of this folder."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from oncue.client.contexts import Contexts, read_contexts
from oncue.local_server import data_dir, is_here, local_key, local_server, local_servers

USUAL_URL = "http://127.0.0.1:8470"


class Address(msgspec.Struct, frozen=True):
    url: str
    key: str | None
    folder: Path | None = None
    """The data directory that the key is of: it goes to the server that runs there, and to no other."""
    named: bool = True
    """Whether somebody gave the address. Else the server of this folder is meant, whoever is there."""

    @property
    def local(self) -> bool:
        return self.folder is not None or is_here(self.url)

    def key_now(self) -> str | None:
        """Return the key to send: the server of a folder may stop, and another one have its port then.

        ConnectionError: it does not run, and no other one is meant.
        """
        if self.folder is None:
            return self.key
        if is_of(self.folder, self.url):
            return _sendable(local_key(self.folder))
        if not self.named:
            raise ConnectionError(
                f"the server of this folder (data directory {self.folder}) does not run here; start it with `oncue up` "
                "or name another with ONCUE_URL and ONCUE_API_KEY"
            )
        return None

    def __repr__(self) -> str:  # keeps the key out of logs
        return f"Address({self.url!r})"


class NoServerNamed(ValueError):
    """A program names no server, and that of its folder does not run: which is meant depends on where it is run."""


def find_address(url: str | None = None, key: str | None = None, context: str | None = None) -> Address:
    """Find address and key: of the arguments, else `ONCUE_URL` and `ONCUE_API_KEY`, else the context `ONCUE_CONTEXT`,
    else of the server of this folder (`admin.key` in its data directory).

    The key of a context is sent to the address of that context only, and the admin key of a folder to the server that
    runs there only. ValueError: it is not known which server is meant, or what was given is damaged.
    """
    known = read_contexts()
    chosen = known.named(context) if context and not url else None
    named = url or (chosen.url if chosen else os.environ.get("ONCUE_URL"))
    given = key or (chosen.key if chosen else None) or os.environ.get("ONCUE_API_KEY")
    if not named and (name := os.environ.get("ONCUE_CONTEXT")):
        chosen = known.named(name)
        named, given = chosen.url, given or chosen.key
    found = _checked(named or _of_this_folder(known))
    if sendable := _sendable((given or "").strip() or None):
        return Address(found, sendable)
    if named:
        return _with_saved_key(found, known)
    folder = data_dir().absolute()
    return Address(found, _sendable(local_key(folder)), folder, named=False)


def is_of(folder: Path, url: str) -> bool:
    """Whether a server of this data directory runs at this address."""
    return any(one.live and _endpoint(one.url) == _endpoint(url) for one in local_servers(folder))


def _endpoint(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, "127.0.0.1" if parts.hostname == "localhost" else parts.hostname, parts.port


def _of_this_folder(known: Contexts) -> str:
    server = local_server(data_dir())
    if known.current is not None and (server is None or not server.live):
        raise NoServerNamed(
            "no server runs in this folder (`oncue up` starts one), and programs use a context only by name: set "
            f"ONCUE_CONTEXT={known.current} or pass context={known.current!r}; for another server set ONCUE_URL or "
            "pass url="
        )
    return USUAL_URL if server is None else server.url


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


def _with_saved_key(url: str, known: Contexts) -> Address:
    """Take the key of the folder whose server this is, else of the context with this address, else of the folder in
    case that its server starts there.
    """
    folder = None
    with suppress(ValueError):  # what was named needs no settings file
        folder = data_dir().absolute()  # a program may go to another folder, as daemons do
    if folder is not None and is_of(folder, url) and (key := _sendable(local_key(folder))):
        return Address(url, key, folder)
    fitting = {name: one.key for name, one in known.contexts.items() if one.url == url}
    if fitting:
        return Address(url, _sendable(fitting.get(known.current or "") or next(iter(fitting.values()))))
    if folder is None or not is_here(url):
        return Address(url, None)
    return Address(url, _sendable(local_key(folder)), folder)
