"""Clean text from user code, so that every database, terminal and log accepts it.

No function here raises, whatever it is given, and none takes long: long text is cut first.
"""

from __future__ import annotations

import re
from typing import Any

LONGEST_SHOWN = 100
UNSTORABLE = re.compile("[\x00\ud800-\udfff]")

# Characters that control a terminal: controls other than line ends and tabs, and marks that reverse text direction.
_COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

_name_of_class: Any = type.__dict__["__name__"].__get__  # bypasses metaclasses
_path_of_class: Any = type.__dict__["__qualname__"].__get__
_module_of_class: Any = type.__dict__["__module__"].__get__


def plain(text: str, longest: int) -> str:
    """Cut to `longest`, and escape each NUL and each half of a surrogate pair as in Python: `\\x00`."""
    short = str.__getitem__(text, slice(longest))  # bypasses a subclass's own slicing
    if short.isascii() and "\0" not in short:
        return short
    return UNSTORABLE.sub(lambda found: ascii(found[0])[1:-1], short)[:longest]


def showable(text: str) -> str:
    """Escape the characters that control a terminal, as in Python and JSON: `\\u001b`."""
    return _COMMANDS.sub(lambda found: f"\\u{ord(found[0]):04x}", text.replace("\r\n", "\n"))


def printable(name: str) -> str:
    """Format a name or path from outside for a message: on one line, short, and encodable."""
    shown = name if len(name) <= LONGEST_SHOWN else f"{name[:LONGEST_SHOWN]}…"
    return shown if shown.isprintable() else "".join(one if one.isprintable() else ascii(one)[1:-1] for one in shown)


def kind_of(value: object) -> str:
    """Return the name of a value's class, on one line."""
    return printable(plain(_name_of_class(type(value)), 2 * LONGEST_SHOWN))


def class_path_of(value: object) -> str:
    """Return the dotted path of a value's class, on one line."""
    kind = type(value)
    try:
        module = str(_module_of_class(kind))
    except BaseException:  # a class may have anything as its module, or nothing
        module = "?"
    return printable(plain(f"{module}.{_path_of_class(kind)}", 2 * LONGEST_SHOWN))


def end_of(text: str, longest: int) -> str:
    """Return the last bytes of a text, on whole lines if it has any, escaped so that it can be stored and printed."""
    end = str.__getitem__(text, slice(-longest, None))
    shown = showable(plain(end, 8 * longest)).encode()  # escaping makes it up to six times as long
    if len(shown) <= longest and len(end) == len(text):
        return shown.decode()
    cut = shown[-longest:].decode(errors="ignore")
    return cut.partition("\n")[2] or cut


def message_of(error: BaseException, longest: int) -> str:
    """Return an error's message, or a note that its `__str__` failed."""
    try:
        return plain(str(error), longest)
    except BaseException as worse:  # user code, which may raise anything
        return f"(no message: __str__ raised {kind_of(worse)})"
