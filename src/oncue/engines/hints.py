"""Hints: which follow from a write, how several about one target are combined, and how received ones are decoded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress

import msgspec

from oncue.domain.ids import ClassId, WorkerId
from oncue.domain.instants import SECOND, Duration, Instant
from oncue.domain.run import Claimed, Peeked
from oncue.engines.port import Cancelled, Hint, Topic

MOST_NAMED = 60  # runs in one hint: for more a look is cheaper; and classes
SOON = Duration(5 * SECOND // 4)  # what is due later needs no hint: at least once a second, a worker reads ahead


def hint_due(runs: Sequence[Peeked], now: Instant) -> list[Hint]:
    """Return a hint that names these runs, which nothing holds, or says where to look, if they are many."""
    soon = [run for run in runs if run.due <= now + SOON]
    return [_naming(soon)] if soon else []


def hint_held(runs: Sequence[Peeked], now: Instant) -> list[Hint]:
    """Return a hint for all who look for runs, of those that something may hold: a lane, a gate, a rate."""
    soon = [run.due for run in runs if run.due <= now + SOON]
    return [Hint(Topic.RUNS, due=min(soon))] if soon else []


def free_or_held(runs: Iterable[tuple[Peeked, bool]], now: Instant) -> list[Hint]:
    """Return the hints for runs, each with whether something may hold it."""
    free, held = list[Peeked](), list[Peeked]()
    for run, is_held in runs:
        (held if is_held else free).append(run)
    return [*hint_due(free, now), *hint_held(held, now)]


def peeked(run: Claimed, due: Instant) -> tuple[Peeked, bool]:
    """Return a run that waits again, as others would read it, and whether something may hold it."""
    return Peeked(run.run_id, due, run.class_id, run.uid), run.lane is not None or run.gate is not None


def _naming(runs: Sequence[Peeked], target: str | None = None) -> Hint:
    due = min(run.due for run in runs)
    if len(runs) <= MOST_NAMED and all(run.class_id for run in runs):
        return Hint(Topic.RUNS, due, target, tuple(runs))
    return Hint(Topic.RUNS, due, target, classes=_few({run.class_id for run in runs}))


def _few(classes: set[ClassId]) -> tuple[ClassId, ...]:
    """Return these classes; none, which means any, if they are many or one is not known."""
    return tuple(sorted(classes)) if len(classes) <= MOST_NAMED and all(classes) else ()


def classes_of(hint: Hint) -> set[ClassId]:
    """Return the classes to look for; none means any."""
    return {run.class_id for run in hint.runs} if hint.runs else set(hint.classes)


def addressee(hint: Hint) -> str | None:
    """Return the worker that it is for. None: for all who follow its topic."""
    return hint.target if hint.topic in (Topic.RUNS, Topic.CANCELS) else None


def is_for(worker: WorkerId | None, hint: Hint) -> bool:
    return addressee(hint) in (None, str(worker))


def combined(one: Hint | None, other: Hint) -> Hint:
    """Combine two hints about the same target. One without a due means: look now, at everything."""
    if one is None or one == other:
        return other
    if one.runs and other.runs:
        return _naming(list(dict.fromkeys((*one.runs, *other.runs))), one.target)
    due = None if one.due is None or other.due is None else min(one.due, other.due)
    some, more = classes_of(one), classes_of(other)
    return Hint(one.topic, due, one.target, classes=_few(some | more) if some and more else ())


class Pending:
    """Hints to be sent, combined per target: of each there are at most two, one that says of which classes and one
    that does not.
    """

    def __init__(self) -> None:
        self.something = asyncio.Event()
        self._hints: dict[tuple[Topic, str | None, bool], Hint] = {}

    def add(self, hints: Iterable[Hint]) -> None:
        for hint in hints:
            key = (hint.topic, hint.target, bool(hint.runs or hint.classes))
            self._hints[key] = combined(self._hints.get(key), hint)
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
