"""Hints: what follows from what was done, many about the same thing as one, and reading them, whoever sent them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

import msgspec

from oncue.engines.port import Cancelled, Hint, Topic


def sooner(one: Hint | None, other: Hint) -> Hint:
    """Two hints about the same thing as one. Without a due it means: look now, at everything."""
    if one is None or other.due is None:
        return other
    return one if one.due is None or one.due <= other.due else other


class Pending:
    """Hints on their way, those about the same thing as one: there are never more than things to hint at."""

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
    """Workers that run any of it have mail; whoever waited behind what was stopped may start."""
    hints = [Hint(Topic.MAIL, target=worker) for worker in sorted({str(worker) for _, worker in answer.told})]
    return [*hints, Hint(Topic.RUNS)] if answer.stopped else hints


def reader(
    form: type[msgspec.json.Decoder[list[Hint]]] | type[msgspec.msgpack.Decoder[list[Hint]]],
) -> Callable[[bytes], list[Hint]]:
    """Reads what came. A hint that a newer oncue means, and this one does not know, is left out alone."""
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
