"""Schedules declared in code: the jobs that a set of tasks has by itself, and the stamp of the code that says so."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import msgspec

from oncue.clock import SystemClock
from oncue.domain.declared import ALONE, TAG, relative_time
from oncue.domain.definition import USUAL, define
from oncue.domain.errors import Invalid, Problem, tried
from oncue.domain.fields import text
from oncue.tasks.places import BadDeclaration

LONGEST_NAME = USUAL.tag - len(TAG)  # of a set: it is part of a tag


class DeclaredSet(msgspec.Struct, frozen=True):
    """Declared jobs that are applied together. A set that code names is pruned: what it no longer declares ends.

    Each schedule of a `Tasks()` without a name is a set of its own, `key:` and its key: such code knows nothing of what
    other code declares, and must neither prune nor outdate it.
    """

    name: str
    named: bool
    stamp: int | None
    jobs: tuple[dict[str, Any], ...]
    places: tuple[str, ...]
    """`file:line` of each job"""


class Schedules:
    """What one `Tasks` object declares. Filled while modules are imported, and then only read."""

    def __init__(self, name: str | None = None) -> None:
        self.name = name
        self.jobs: dict[str, tuple[str, dict[str, Any]]] = {}  # place and fields of each job, by its key
        self.wrong: list[BadDeclaration] = []  # that were collected
        self._written: dict[str, int] = {}
        """The files that the declarations are in, and when each was written, in seconds."""

    def read(self, file: str) -> None:
        """Note a file whose code runs now: what is saved later is other code."""
        if file not in self._written and Path(file).is_file():  # else there is none, as in a shell
            self._written[file] = int(Path(file).stat().st_mtime)

    def add(self, place: str, fields: dict[str, Any], problems: list[Problem]) -> None:
        """Declare a job, unless there are problems: those that are found here are added."""
        problems += _problems_of(fields, named=self.name is not None)
        key = fields["key"]
        if isinstance(key, str) and key in self.jobs:
            message = f"{key!r} is also the key of the schedule at {self.jobs[key][0]}; write using(key=…).declare(…)"
            problems.append(Problem("key", "not_unique", message))
        elif not problems or (isinstance(key, str) and _collected.get() is not None):  # a later one may have its key
            self.jobs[key] = place, fields

    def refuse(self, wrong: BadDeclaration) -> None:
        """Raise what is wrong with a declaration, unless all that is wrong is collected."""
        collected = _collected.get()
        if collected is None:
            raise wrong
        collected.append(wrong)
        self.wrong.append(wrong)

    def stamp(self) -> int | None:
        """Return when the newest of the files was written, in seconds. None: there are none."""
        return max(self._written.values(), default=None)


_collected: ContextVar[list[BadDeclaration] | None] = ContextVar("collected", default=None)


@contextmanager
def collecting() -> Iterator[list[BadDeclaration]]:
    """Collect the schedules that modules declare wrongly while this block imports them. Elsewhere the first raises."""
    found: list[BadDeclaration] = []
    token = _collected.set(found)
    try:
        yield found
    finally:
        _collected.reset(token)


def declared_sets(declared: Iterable[Schedules], build: int | None) -> tuple[DeclaredSet, ...]:
    """Return what is to be applied. `build` is the stamp; None: each set has that of its files.

    Invalid: schedules have one key.
    """
    problems: list[Problem] = []
    sets: dict[str, list[Schedules]] = {}
    places: dict[str, str] = {}
    alone: list[DeclaredSet] = []
    for one in declared:
        for key, (place, fields) in one.jobs.items():
            if key in places:
                message = f"{place}: {key!r} is also the key of the schedule at {places[key]}; keys must be unique"
                problems.append(Problem("tasks", "not_unique", message))
            places.setdefault(key, place)
            if one.name is None:
                stamp = one.stamp() if build is None else build
                alone.append(DeclaredSet(f"{ALONE}{key}", False, stamp, (fields,), (place,)))
        if one.name is not None:
            sets.setdefault(one.name, []).append(one)
    if problems:
        raise Invalid(*problems)
    return (*(_together(name, several, build) for name, several in sets.items()), *alone)


def _together(name: str, several: list[Schedules], build: int | None) -> DeclaredSet:
    jobs = [found for one in several for found in one.jobs.values()]
    stamps = [stamp for one in several if (stamp := one.stamp()) is not None]
    stamp = max(stamps, default=None) if build is None else build
    return DeclaredSet(name, True, stamp, tuple(fields for _, fields in jobs), tuple(place for place, _ in jobs))


def check_name(name: str | None) -> None:
    """Invalid: this is no name of a set, as `POST /jobs/apply` reads one."""
    if name is not None:
        text(LONGEST_NAME)(name, "name")


def caller(depth: int) -> tuple[str, int]:
    """Return file and line of user code, this many frames above the function that asks."""
    frame = sys._getframe(depth + 1)
    return frame.f_code.co_filename, frame.f_lineno


def _problems_of(fields: Mapping[str, Any], *, named: bool) -> list[Problem]:
    """Check what can be checked here: the rest depends on the server, such as which tasks are registered."""
    problems: list[Problem] = []
    if (where := relative_time(fields["schedule"])) is not None:
        message = "would be another instant with each start; write an instant, like at('2027-01-31T09:00:00Z')"
        problems.append(Problem(f"schedule{where}", "relative_time", message))
    tried(problems, define, dict(fields), {}, SystemClock().now())
    longest = LONGEST_NAME - len(ALONE)
    if not named and isinstance(fields["key"], str) and len(fields["key"]) > longest:
        message = f"is longer than {longest} characters; shorten it, or name the set: Tasks('shop')"
        problems.append(Problem("key", "out_of_range", message))
    return problems
