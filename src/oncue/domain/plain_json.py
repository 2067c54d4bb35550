"""Check that JSON is portable: accepted alike by every database, language and log. Problems name their place."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from typing import Any

import msgspec

from oncue.domain.errors import Invalid, Problem
from oncue.domain.models import dumped
from oncue.domain.plain_text import UNSTORABLE, message_of, printable

DEEPEST = 64
LONGEST_REASON = 500
SMALLEST_INTEGER, LARGEST_INTEGER = -(2**63), 2**64 - 1

_CONTAINERS = (dict, list)  # `dict | list` would be built anew for every value
_skim = msgspec.json.Decoder(msgspec.Raw).decode  # parses without building values
_SHAPES = bytes(dict(zip(b"0123456789eE+", b"0000000000ee+", strict=True)).get(byte, 32) for byte in range(256))
_LARGE_NUMBERS = (b"0" * 300, b"e000", b"e+000")  # as they look in _SHAPES; text may look the same

_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NEITHER_BRACKET_NOR_QUOTE = bytes(sorted(set(range(256)) - set(b'{}[]"')))


def not_plain(value: Any, path: str, depth: int = 1) -> Iterator[Problem]:
    """Yield the problems of a decoded JSON value at `path`."""
    if isinstance(value, str):
        if UNSTORABLE.search(value):
            yield Problem(
                printable(path), "bad_text", "has a NUL or half a surrogate pair, which cannot be stored; remove it"
            )
    elif isinstance(value, dict | list):
        if depth > DEEPEST:
            yield Problem(printable(path), "too_deep", f"is nested more than {DEEPEST} levels deep; flatten it")
        elif isinstance(value, dict):
            for key, inner in value.items():
                if UNSTORABLE.search(key):
                    yield Problem(
                        printable(f"{path}.{key}"), "bad_text", "the name has a NUL or half a surrogate pair; remove it"
                    )
                yield from not_plain(inner, f"{path}.{key}", depth + 1)
        else:
            for place, inner in enumerate(value):
                yield from not_plain(inner, f"{path}.{place}", depth + 1)
    elif isinstance(value, float):
        if not isfinite(value):
            yield Problem(printable(path), "bad_number", "is not a finite number")
    elif isinstance(value, int) and not SMALLEST_INTEGER <= value <= LARGEST_INTEGER:
        yield Problem(printable(path), "bad_number", "does not fit into 64 bits; write it as a string")


def has_more_values(value: Any, most: int) -> bool:
    """Whether a decoded JSON value contains more values than this. It looks at few more than so many."""
    todo = [value]
    while todo:
        one = todo.pop()
        if isinstance(one, _CONTAINERS):
            most -= len(one)
            if most < 0:
                return True
            inner = one.values() if isinstance(one, dict) else one
            todo += [value for value in inner if isinstance(value, _CONTAINERS)]
    return False


def encoded(value: object, name: str, largest: int) -> bytes:
    """Encode a value from user code for storage. Invalid: it is not JSON, or would be read back as another value.

    The result is parsed once as a check: some types encode to text that is not valid JSON.
    """
    try:
        stored = msgspec.json.encode(value, enc_hook=dumped)
        if len(stored) > largest:
            message = f"has {len(stored)} bytes; at most {largest} are allowed; store a reference instead"
            raise Invalid.of(name, "too_large", message)
        _see_that_it_is_json(stored)
        if len(stored) > DEEPEST and too_deep(stored):
            raise RecursionError
        if b"null" in stored and is_not_finite(value):  # which would be read back as null
            raise Invalid.of(name, "bad_number", "is not JSON: a number in it is not finite")
    except Invalid:
        raise
    except RecursionError:
        message = f"is not JSON: it contains itself, or is nested more than {DEEPEST} levels deep"
        raise Invalid.of(name, "too_deep", message) from None
    except Exception as wrong:
        raise Invalid.of(name, "not_json", f"is not JSON: {message_of(wrong, LONGEST_REASON)}") from None
    return stored


def too_deep(stored: bytes, deepest: int = DEEPEST) -> bool:
    """Whether valid JSON is nested more deeply than every reader supports.

    Building values could be expensive, since an attacker may have written the text. So only the brackets outside
    strings are kept, and the innermost pairs are removed level by level.
    """
    if stored.count(b"[") + stored.count(b"{") <= deepest:
        return False
    unescaped = stored.replace(rb"\\", b"").replace(rb"\"", b"")
    marks = unescaped.translate(_BRACKETS, _NEITHER_BRACKET_NOR_QUOTE).replace(b'""', b"")
    brackets = b"".join(marks.split(b'"')[::2])
    for _ in range(deepest):
        brackets = brackets.replace(b"[]", b"")
        if not brackets:
            return False
    return bool(brackets)


def _see_that_it_is_json(stored: bytes) -> None:
    """Raise ValueError or RecursionError if this is not JSON for every reader."""
    _skim(stored.decode())
    shapes = stored.translate(_SHAPES)  # a regular expression would block the event loop for 40 ms per megabyte
    if any(large in shapes for large in _LARGE_NUMBERS):
        msgspec.json.decode(stored)


def readable(stored: bytes) -> bool:
    """Whether this is JSON for every reader."""
    try:
        _see_that_it_is_json(stored)
        return not too_deep(stored)
    except (ValueError, RecursionError):
        return False


def is_not_finite(value: object) -> bool:
    """Whether a value contains NaN or infinity, which msgspec encodes as null."""
    try:
        todo: list[object] = [msgspec.to_builtins(value, enc_hook=dumped)]
    except TypeError:  # it contains raw JSON
        return False
    while todo:
        one = todo.pop()
        if isinstance(one, float) and not isfinite(one):
            return True
        if isinstance(one, dict):
            todo += one.values()
        elif isinstance(one, list | tuple):
            todo += one
    return False


def number(value: Any, name: str) -> float:
    """Convert to a number that JSON has. Invalid: that is impossible."""
    try:
        if isinstance(value, int):
            if SMALLEST_INTEGER <= value <= LARGEST_INTEGER:
                return int(value)
        elif isfinite(found := float(type(value).__float__(value))):
            return found
    except Exception:  # the value comes from user code
        pass
    raise Invalid.of(name, "bad_number", "is not a finite number of at most 64 bits")
