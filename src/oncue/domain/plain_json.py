"""JSON that every store, language and log takes alike. What only some take is named, with the place where it stands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import isfinite
from typing import Any

from oncue.domain.errors import Problem

DEEPEST = 64
LONGEST_SHOWN = 100
SMALLEST_INTEGER, LARGEST_INTEGER = -(2**63), 2**64 - 1
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def not_plain(value: Any, path: str, depth: int = 1) -> Iterator[Problem]:
    """What is wrong with a decoded JSON value, if anything; `path` is where it stands."""
    if isinstance(value, str):
        if _UNSTORABLE.search(value):
            yield Problem(
                printable(path), "bad_text", "has a NUL or half a surrogate pair, which cannot be stored: leave it out"
            )
    elif isinstance(value, dict | list):
        if depth > DEEPEST:
            yield Problem(printable(path), "too_deep", f"is nested more than {DEEPEST} levels deep: flatten it")
        elif isinstance(value, dict):
            for key, inner in value.items():
                if _UNSTORABLE.search(key):
                    yield Problem(printable(f"{path}.{key}"), "bad_text", "its name has a NUL or half a surrogate pair")
                yield from not_plain(inner, f"{path}.{key}", depth + 1)
        else:
            for place, inner in enumerate(value):
                yield from not_plain(inner, f"{path}.{place}", depth + 1)
    elif isinstance(value, float):
        if not isfinite(value):
            yield Problem(printable(path), "bad_number", "is not a finite number")
    elif isinstance(value, int) and not SMALLEST_INTEGER <= value <= LARGEST_INTEGER:
        yield Problem(printable(path), "bad_number", "does not fit into 64 bits: write it as a string")


def printable(name: str) -> str:
    """A name or path from outside, fit to be shown in a problem: on one line, short, and encodable."""
    shown = name if len(name) <= LONGEST_SHOWN else f"{name[:LONGEST_SHOWN]}…"
    return shown if shown.isprintable() else "".join(one if one.isprintable() else ascii(one)[1:-1] for one in shown)
