"""The metrics token: lets a client read metrics, and needs no database."""

from __future__ import annotations

import os
import re
import stat
from typing import Final

from oncue.domain.errors import Invalid
from oncue.settings import Settings

SHORTEST_TOKEN: Final = 16  # characters
LARGEST_FILE: Final = 4 * 1024  # bytes

_TOKEN = re.compile(b"[!-~]*")


def read_token(settings: Settings) -> str | None:
    """Read the metrics token. None: the settings name no file."""
    path = settings.metrics_token_file
    if not path:
        return None
    token = _content(path).strip()
    if b"\n" in token:
        raise _refused(path, "bad_token", "has more than one line; write one random token")
    if not _TOKEN.fullmatch(token):
        raise _refused(path, "bad_token", "has a space or a character that is not ASCII; write one random token")
    if len(token) < SHORTEST_TOKEN:
        raise _refused(path, "too_short", f"has fewer than {SHORTEST_TOKEN} characters; write a longer random token")
    return token.decode()


def _content(path: str) -> bytes:
    """Read a file. A pipe, which would keep the reader waiting, is not read."""
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise _refused(path, "bad_file", "is not a regular file; write the token into one")
            content = file.read(LARGEST_FILE + 1)
    except (OSError, ValueError) as no:
        why = no.strerror if isinstance(no, OSError) else "it is not the name of a file"
        raise Invalid.of("metrics_token_file", "bad_file", f"cannot read {path!r}: {why}") from None
    if len(content) > LARGEST_FILE:
        raise _refused(path, "too_large", f"has more than {LARGEST_FILE} bytes; write one random token")
    return content


def _refused(path: str, code: str, why: str) -> Invalid:
    return Invalid.of("metrics_token_file", code, f"{path!r} {why}")
