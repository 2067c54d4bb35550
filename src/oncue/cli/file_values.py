"""Which types the values of a file may have: an option would change a value of another type silently."""

from __future__ import annotations

from typing import Any, Final, Literal, get_args, get_origin

import click

from oncue.domain.instants import Duration, show_duration
from oncue.settings import KINDS, Settings

DEFAULTS: Final = Settings()
TYPES: Final[dict[Any, tuple[type, ...]]] = {int: (int,), float: (int, float), bool: (bool,)}


def typed(where: str, name: str, value: Any) -> Any:
    """Return a value for the option of this setting. A text stands for every type, as it does in a variable."""
    kind = KINDS[name]
    is_list = get_origin(kind) is tuple
    values = value if is_list and isinstance(value, list) else [value]
    for one in values:
        if type(one) not in (str, *TYPES.get(kind, ())):  # a bool is an int, too
            raise click.UsageError(f"{where}: {_shown(one)}; write {_wanted(name, kind)}")
    return values if is_list else value


def _shown(value: Any) -> str:
    match value:
        case bool():
            return "is true" if value else "is false"
        case int() | float():
            return f"is {value}"
        case list():
            return "is a list"
        case _:
            return "is a date or time"


def _wanted(name: str, kind: Any) -> str:
    default = getattr(DEFAULTS, name)
    if get_origin(kind) is tuple:
        return f'texts in quotes, like {name} = ["a", "b"]'
    if get_origin(kind) is Literal:
        return " or ".join(f'"{one}"' for one in get_args(kind))
    if kind is Duration:
        return f'a duration in quotes, like {name} = "{show_duration(default)}"'
    if kind is bool:
        return "true or false"
    if kind in TYPES:
        return f"{'a whole number' if kind is int else 'a number'}, like {name} = {default}"
    return "a text in quotes"
