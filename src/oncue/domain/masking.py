"""Replace the values of secrets in what a run says, in every form that they usually take.

Values of fewer than 8 characters are not masked: they would be found everywhere. Of a text with several lines each long
line is masked, too; of a URL also its password, what follows its host, and long pieces of that.
"""

from __future__ import annotations

import html
import json
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any
from urllib.parse import quote, quote_plus

import msgspec

MASK = "•••"
SHORTEST = 8  # characters of a value that is masked
LONG_PIECE = 16  # characters of a piece of a URL that is masked also alone: shorter ones are mostly words
LEAST_SHOWN = 4  # characters of a value at a cut that are masked

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://(?:[^/?#@]*?:([^/?#@]*)@)?[^/?#]*(.*)", re.DOTALL)


class Masking:
    """Masks some values. Without values it returns everything as it is."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        parts = (part for value in values for part in _parts(value))
        forms = {form for part in parts for reading in (part, _misread(part)) for form in _forms(reading)}
        self._forms = sorted(forms, key=len, reverse=True)  # a form may be inside of another
        self._as_bytes = [form.encode(errors="surrogatepass") for form in self._forms]

    def __bool__(self) -> bool:
        return bool(self._forms)

    def text(self, text: str) -> str:
        for form in self._forms:
            text = text.replace(form, MASK)
        return text

    def excerpt(self, text: str) -> str:
        """Mask a text that may have been cut inside of a value, at its beginning or its end."""
        whole = self.text(text)
        text = whole.removesuffix("…")  # as `printable` cuts
        cut = max((_begun(text, form) for form in self._forms), default=0)
        text = text[:-cut] + MASK if cut >= LEAST_SHOWN else whole
        backwards = text[::-1]
        cut = max((_begun(backwards, form[::-1]) for form in self._forms), default=0)
        return MASK + text[cut:] if cut >= LEAST_SHOWN else text

    def content(self, content: bytes) -> bytes:
        """Mask bytes of any kind, as from a server, that may have been cut at their end."""
        for form in self._as_bytes:
            content = content.replace(form, MASK.encode())
        cut = max((_begun(content, form) for form in self._as_bytes), default=0)
        return content[:-cut] + MASK.encode() if cut >= LEAST_SHOWN else content

    def found_in(self, stored: bytes) -> bool:
        return any(form in stored for form in self._as_bytes)

    def json(self, stored: bytes | None) -> bytes | None:
        """Mask encoded JSON, which stays JSON."""
        if stored is None or not self.found_in(stored):
            return stored
        masked = msgspec.json.encode(self._value(msgspec.json.decode(stored)))
        return msgspec.json.encode(MASK) if self.found_in(masked) else masked

    def _value(self, value: Any) -> Any:
        match value:
            case str():
                return self.text(value)
            case dict():
                return {self.text(field): self._value(one) for field, one in value.items()}
            case list():
                return [self._value(one) for one in value]
            case int() | float() if self.text(shown := str(value)) != shown:
                return MASK
            case _:
                return value

    def held(self, text: str) -> int:
        """Return how many characters at the end of a text may be the beginning of a value."""
        return max((_begun(text, form) for form in self._forms), default=0)


class MaskedStream:
    """Masks text that arrives in pieces, wherever it is cut. Not for several threads at once."""

    def __init__(self, masking: Masking) -> None:
        self._masking = masking
        self._held = ""

    def feed(self, piece: str, *, final: bool = False) -> str:
        """Return what can be passed on. A possible beginning of a value waits for the next piece."""
        text = self._masking.text(self._held + piece)
        if final:
            self._held = ""
            return self._masking.excerpt(text)
        held = self._masking.held(text)
        self._held = text[len(text) - held :]
        return text[: len(text) - held]


def _parts(value: str) -> Iterator[str]:
    parts = [value, *(line.strip() for line in value.splitlines())]
    if url := _URL.fullmatch(value):
        parts += [url[1] or "", url[2], *(piece for piece in re.split("[/?&=#]", url[2]) if len(piece) >= LONG_PIECE)]
    return (part for part in parts if len(part) >= SHORTEST)


def _misread(value: str) -> str:
    """Return how whoever reads headers as Latin-1, as HTTP has it, sees a value that was sent as UTF-8."""
    return value.encode(errors="surrogatepass").decode("latin-1")


def _forms(value: str) -> Iterator[str]:
    raw = value.encode(errors="surrogatepass")
    yield value
    yield msgspec.json.encode(value).decode()[1:-1]
    yield json.dumps(value)[1:-1]
    yield ascii(value)[1:-1]
    yield repr(value)[1:-1]
    yield html.escape(value)
    for quoted in (quote(raw, safe=""), quote(raw), quote(raw, safe="!$%&'()*+,/:;=?@[]~"), quote_plus(raw)):
        yield quoted
        yield re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), quoted)
    for before in range(3):  # bytes: `user:value` in base64 looks different from `value`
        encoded = b64encode(bytes(before) + raw).decode()
        core = encoded[-(-8 * before // 6) : 8 * (before + len(raw)) // 6]
        yield core
        yield core.translate(_URL_SAFE)


_URL_SAFE = str.maketrans("+/", "-_")


def _begun(text: Any, form: Any) -> int:
    """Return how many characters at the end of the text are a beginning of the form, but not all of it."""
    first = max(0, len(text) - len(form) + 1)
    for at in chain(_places(text, form[:SHORTEST], first), range(max(first, len(text) - SHORTEST + 1), len(text))):
        if form.startswith(text[at:]):
            return len(text) - at
    return 0


def _places(text: Any, part: Any, at: int) -> Iterator[int]:
    while (at := text.find(part, at)) >= 0:
        yield at
        at += 1
