"""How a setting is declared: its default, what it says, and which roles read it."""

from __future__ import annotations

from enum import Flag
from typing import Final, TypeVar

import msgspec

T = TypeVar("T")


class Roles(Flag):
    API = 1
    SCHEDULER = 2
    WORKER = 4


API, SCHEDULER, WORKER = Roles
ALL: Final = API | SCHEDULER | WORKER


class Declaration(msgspec.Struct, frozen=True):
    """What is known of a setting beside its type and default."""

    text: str
    roles: Roles
    """The roles that read it."""

    least: int | None
    most: int | None
    metavar: str | None
    """What its value is called in `--help`, if not what all of its type are."""

    rare: bool
    """Shown by `--help-all`, not by `--help`."""


declarations: list[Declaration] = []


def setting(
    default: T,
    text: str,
    roles: Roles,
    *,
    least: int | None = None,
    most: int | None = None,
    metavar: str | None = None,
    rare: bool = False,
) -> T:
    """Declare the next field of Settings, and return its default."""
    declarations.append(Declaration(text, roles, least, most, metavar, rare))
    return default
