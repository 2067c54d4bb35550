"""What people type to name a job, a run or a worker: an id, the beginning or the end of one, a key, a name."""

from __future__ import annotations

import re
from enum import StrEnum
from uuid import UUID

import msgspec

DIGITS = 32  # of an id
LEAST_ENDING = 6  # digits: among some thousand ids an ending of these is nearly always one id's
LEAST_BEGINNING = 8  # digits: ids of the same minute begin alike
_HEXADECIMAL = re.compile("[0-9a-f]+")


class Match(StrEnum):
    """By what an object matches, the strongest first."""

    ID = "id"
    ENDING = "ending"
    BEGINNING = "beginning"
    KEY = "key"
    NAME = "name"
    ENDED_NAME = "ended_name"
    PREFIX = "prefix"


class Digits(msgspec.Struct, frozen=True):
    """Hexadecimal digits that may be an id, or a part of one. Hyphens do not count."""

    text: str

    @property
    def whole(self) -> bool:
        return len(self.text) == DIGITS

    @property
    def can_end(self) -> bool:
        return LEAST_ENDING <= len(self.text) < DIGITS

    @property
    def can_begin(self) -> bool:
        return LEAST_BEGINNING <= len(self.text) < DIGITS

    @property
    def first(self) -> UUID:
        """The first id that begins with these digits."""
        return UUID(self.text.ljust(DIGITS, "0"))

    @property
    def last(self) -> UUID:
        return UUID(self.text.ljust(DIGITS, "f"))

    def match(self, identifier: UUID) -> Match | None:
        if self.whole:
            return Match.ID if identifier.hex == self.text else None
        if self.can_end and identifier.hex.endswith(self.text):
            return Match.ENDING
        return Match.BEGINNING if self.can_begin and identifier.hex.startswith(self.text) else None


def read_digits(text: str) -> Digits | None:
    """Return the digits of a text that may stand for an id. None: it cannot."""
    digits = text.replace("-", "").lower()
    fits = LEAST_ENDING <= len(digits) <= DIGITS and _HEXADECIMAL.fullmatch(digits) is not None
    return Digits(digits) if fits else None


def match_name(text: str, name: str) -> Match | None:
    if name == text:
        return Match.NAME
    return Match.PREFIX if name.startswith(text) else None
