"""Text that every store, screen and log takes, made of whatever code that is not ours has to say.

Nothing here raises, whatever it is given, and nothing takes long: what is too long is cut before it is looked at.
"""

from __future__ import annotations

import re
from typing import Any

LONGEST_SHOWN = 100
UNSTORABLE = re.compile("[\x00\ud800-\udfff]")

# What a terminal obeys instead of showing it: controls but for line ends and tabs, and what turns writing around.
_COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

_name_of_class: Any = type.__dict__["__name__"].__get__  # not as a metaclass would have it


def plain(text: str, longest: int) -> str:
    """No longer than that, and with each NUL and each half of a surrogate pair written out as in Python: `\\x00`."""
    short = str.__getitem__(text, slice(longest))  # a subclass may do with its slices what it likes
    if short.isascii() and "\0" not in short:
        return short
    return UNSTORABLE.sub(lambda found: ascii(found[0])[1:-1], short)[:longest]


def showable(text: str) -> str:
    """All of it, with whatever a terminal would obey written out as in Python and JSON: `\\u001b`."""
    return _COMMANDS.sub(lambda found: f"\\u{ord(found[0]):04x}", text.replace("\r\n", "\n"))


def printable(name: str) -> str:
    """A name or path from outside, fit to be shown in a problem: on one line, short, and encodable."""
    shown = name if len(name) <= LONGEST_SHOWN else f"{name[:LONGEST_SHOWN]}…"
    return shown if shown.isprintable() else "".join(one if one.isprintable() else ascii(one)[1:-1] for one in shown)


def kind_of(value: object) -> str:
    """The name of its class, on one line."""
    return printable(plain(_name_of_class(type(value)), 2 * LONGEST_SHOWN))


def said_by(error: BaseException, longest: int) -> str:
    """Its message; or, when it cannot say it, that."""
    try:
        return plain(str(error), longest)
    except BaseException as worse:  # code of users, which may raise anything
        return f"(it cannot be said: its __str__ raised {kind_of(worse)})"
