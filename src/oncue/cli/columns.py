"""Text in columns: how wide it is on a terminal, and cut or padded to a width."""

from __future__ import annotations

from unicodedata import category, east_asian_width

CUT = "…"


def width_of(text: str) -> int:
    """Return how many columns a terminal uses for printable text: two for each wide character, none for accents."""
    return len(text) if text.isascii() else sum(map(_width_of_one, text))


def cut(text: str, width: int) -> str:
    """Cut text to at most this many columns; what was cut ends in `…`."""
    if width_of(text) <= width:
        return text
    kept, left = [], width - 1
    for letter in text:
        left -= _width_of_one(letter)
        if left < 0:
            break
        kept.append(letter)
    return "".join(kept) + CUT if width > 0 else ""


def pad(text: str, width: int, *, right: bool = False) -> str:
    """Fill up with spaces; with `right`, in front of the text."""
    spaces = " " * (width - width_of(text))
    return spaces + text if right else text + spaces


def share(wanted: list[int], least: list[int], room: int) -> list[int]:
    """Share `room` columns: as wanted if that fits; else the widest give until it fits or all have their least."""
    widths = list(wanted)
    while sum(widths) > room:
        able = [i for i, width in enumerate(widths) if width > least[i]]
        if not able:
            break
        widths[max(able, key=lambda i: widths[i])] -= 1
    return widths


def _width_of_one(letter: str) -> int:
    if east_asian_width(letter) in "WF":
        return 2
    return 0 if category(letter) in ("Mn", "Me") else 1
