"""Put a log line together: one event is one line, without secrets, and without characters that control a terminal."""

from __future__ import annotations

import json
import re
import traceback
from collections.abc import Mapping
from typing import Any

from oncue.domain.plain_text import kind_of, message_of

LONGEST_VALUE = 1_000  # characters
LONGEST_ERROR = 200  # of an error's message, whose words are a user's
MOST_FRAMES = 8

# Call sites pass none of these. What slips into a text, as an address in an error's message, stops here.
_SECRETS = (
    (re.compile(r"\boc_[0-9A-Za-z]{8,}"), "oc_…"),  # API keys
    (re.compile(r"(://)\S*@"), r"\1…@"),  # user and password of an address
    (re.compile(r"(://[^\s?]*)\?\S*"), r"\1?…"),  # its query string
)
_FIRST = ("timestamp", "level", "kind", "event", "role")
_COLOURS = {"debug": "2", "info": "32", "warning": "33", "error": "31", "critical": "31"}

Line = dict[str, Any]


def in_order(line: Mapping[str, Any]) -> Line:
    """Return the fields with those that every line has in front."""
    return {name: line[name] for name in _FIRST if name in line} | dict(line)


def explained(line: Line, *, errors: bool) -> Line:
    """Replace an exception by its class and where it was raised, never with local variables.

    A message is the words of whoever raised the error, and may hold anything: it is kept only with `errors`.
    """
    raised = line.pop("exc_info", None)
    if isinstance(raised, BaseException):
        line["error_type"] = kind_of(raised)
        line["error"] = message_of(raised, LONGEST_ERROR)
        line["trace"] = _trace(raised)
    if not errors:
        line.pop("error", None)
    elif "error" in line:
        line["error"] = line["error"][:LONGEST_ERROR]
    return line


def _trace(error: BaseException) -> list[str]:
    """Return where it was raised, innermost first, and the classes of its causes."""
    frames = [
        f"{'/'.join(frame.f_code.co_filename.split('/')[-3:])}:{line} {frame.f_code.co_name}"
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    cause = error.__cause__ or error.__context__
    return frames[: -MOST_FRAMES - 1 : -1] + ([] if cause is None else [f"caused by {kind_of(cause)}"])


def scrubbed(value: Any) -> Any:
    """Return a value that JSON can hold, its texts short and without secrets."""
    match value:
        case None | bool() | int() | float():
            return value
        case Mapping():
            return {str(name): scrubbed(one) for name, one in value.items()}
        case list() | tuple() | set() | frozenset():
            return [scrubbed(one) for one in value]
        case _:
            return _without_secrets(str(value)[:LONGEST_VALUE])


def _without_secrets(text: str) -> str:
    for secret, instead in _SECRETS:
        text = secret.sub(instead, text)
    return text


def as_json(line: Line) -> str:
    """Escapes everything but printable ASCII."""
    return json.dumps(line)


def as_text(line: Line, *, colours: bool) -> str:
    rest = dict(line)
    timestamp, level, kind, event = (rest.pop(name, "") for name in ("timestamp", "level", "kind", "event"))
    shown = f"\033[{_COLOURS.get(level, '0')}m{level:<8}\033[0m" if colours else f"{level:<8}"
    fields = " ".join(f"{name}={_short(value)}" for name, value in rest.items())
    return f"{timestamp} {shown} {one_line(event)}  {kind} {fields}"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    quoted = isinstance(value, str) and (not text or " " in text or '"' in text)
    return one_line(json.dumps(text, ensure_ascii=False) if quoted else text)


def one_line(text: str) -> str:
    return text if text.isprintable() else "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)
