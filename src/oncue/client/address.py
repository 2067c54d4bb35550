"""Find the server's address and the API key: from arguments, else the environment, else the local defaults."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

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


def find_address(url: str | None = None, key: str | None = None) -> Address:
    """Find address and key. `ONCUE_URL` and `ONCUE_API_KEY` replace missing arguments.

    Without a key, the admin key of a local server is used: `admin.key` in `ONCUE_DATA_DIR`, or in `.oncue`. It is sent
    to this machine only.
    """
    found = Address(
        (url or os.environ.get("ONCUE_URL") or USUAL_URL).rstrip("/"),
        (key or os.environ.get("ONCUE_API_KEY") or "").strip() or None,
    )
    if "@" in found.url:  # not repeated: it may be a password
        raise ValueError("the server's URL must not have a user or password: remove it, and set ONCUE_API_KEY")
    parts = urlsplit(found.url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{found.url!r} is not the address of a server; write it like {USUAL_URL}")
    if found.key is None and found.local:
        return Address(found.url, _local_key())
    return found


def _local_key() -> str | None:
    try:
        return (Path(os.environ.get("ONCUE_DATA_DIR") or ".oncue") / KEY_FILE).read_text().strip() or None
    except OSError:
        return None
