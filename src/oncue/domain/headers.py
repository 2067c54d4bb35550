"""Which headers a job of the task `http` may send."""

from __future__ import annotations

import re

# These headers are ours to set; an answer in an encoding that we cannot unpack would be useless.
_OURS = frozenset(
    "accept-encoding connection content-length expect host keep-alive te trailer transfer-encoding upgrade".split()
)
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")


def header_fault(name: str, value: str = "") -> str | None:
    """Return what is wrong with a header, or None."""
    if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
        return "contains characters that are not allowed in a header"
    if name.lower() in _OURS or name.lower().startswith("oncue-"):
        return "is set by oncue: remove it"
    return None
