"""Hints: which follow from a write, how several about one target are combined, and how received ones are decoded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

import msgspec

from oncue.engines.port import Cancelled, Hint, Topic


def sooner(one: Hint | None, other: Hint) -> Hint:
    """Combine two hints about the same target. One without a due means: look now, at everything."""
    if one is None or other.due is None:
        return other
    return one if one.due is None or one.due <= other.due else other


class Pending:
    """Hints to be sent, combined per target: there are never more than targets."""

    def __init__(self) -> None:
        self.something = asyncio.Event()
        self._hints: dict[tuple[Topic, str | None], Hint] = {}

    def add(self, hints: Iterable[Hint]) -> None:
        for hint in hints:
            key = (hint.topic, hint.target)
            self._hints[key] = sooner(self._hints.get(key), hint)
            self.something.set()

    def take(self) -> list[Hint]:
        hints, self._hints = list(self._hints.values()), {}
        self.something.clear()
        return hints


def after_stopping(answer: Cancelled) -> list[Hint]:
    """Return hints: for workers that have to stop runs, and for runs that were blocked by the stopped ones."""
    hints = [Hint(Topic.CANCELS, target=worker) for worker in sorted({str(worker) for _, worker in answer.told})]
    return [*hints, Hint(Topic.RUNS)] if answer.stopped else hints


def reader(
    form: type[msgspec.json.Decoder[list[Hint]]] | type[msgspec.msgpack.Decoder[list[Hint]]],
) -> Callable[[bytes], list[Hint]]:
    """Return a decoder. It leaves out only the hints of a newer oncue that this version does not know."""
    whole, parts, one = form(list[Hint]).decode, form(list[msgspec.Raw]).decode, form(Hint).decode

    def read(text: bytes) -> list[Hint]:
        try:
            return whole(text)
        except msgspec.ValidationError:
            return list(known(text))

    def known(text: bytes) -> Iterator[Hint]:
        for part in parts(text):
            with suppress(msgspec.ValidationError):
                yield one(part)

    return read
