"""Where the server is and with which key to ask it: what was given, else the environment, else what is local."""

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

    def __repr__(self) -> str:  # what is printed ends in logs
        return f"Address({self.url!r})"


def find_address(url: str | None = None, key: str | None = None) -> Address:
    """`ONCUE_URL` and `ONCUE_API_KEY` stand in for what is left out.

    Without a key, that of a server started here is taken: `admin.key` in `ONCUE_DATA_DIR`, or in `.oncue`. It is only
    ever sent to this machine.
    """
    found = Address(
        (url or os.environ.get("ONCUE_URL") or USUAL_URL).rstrip("/"),
        (key or os.environ.get("ONCUE_API_KEY") or "").strip() or None,
    )
    parts = urlsplit(found.url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{found.url!r} is not the address of a server: write it like {USUAL_URL}")
    if found.key is None and found.local:
        return Address(found.url, _local_key())
    return found


def _local_key() -> str | None:
    try:
        return (Path(os.environ.get("ONCUE_DATA_DIR") or ".oncue") / KEY_FILE).read_text().strip() or None
    except OSError:
        return None
