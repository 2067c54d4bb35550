"""Schedules declared in code: the jobs that a set of tasks has by itself, and the stamp of the code that says so."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from oncue.clock import SystemClock
from oncue.domain.declared import TAG, relative_time
from oncue.domain.definition import USUAL, define
from oncue.domain.errors import Invalid, Problem
from oncue.domain.fields import text
from oncue.tasks.places import BadDeclaration

LONGEST_NAME = USUAL.tag - len(TAG)  # of a set: it is part of a tag
ALONE = "key:"  # before a key: the name of the set that has only the job with this key


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
        self._written: dict[str, int] = {}
        """The files that the declarations are in, and when each was written, in seconds."""

    def read(self, file: str) -> None:
        """Note a file whose code runs now: what is saved later is other code."""
        if file not in self._written and Path(file).is_file():  # else there is none, as in a shell
            self._written[file] = int(Path(file).stat().st_mtime)

    def add(self, place: str, what: str, fields: dict[str, Any]) -> None:
        """Declare a job. BadDeclaration: what is wrong with it."""
        try:
            _check(fields, named=self.name is not None)
        except Invalid as wrong:
            raise BadDeclaration(place, what, wrong.problems) from None
        key = fields["key"]
        if key in self.jobs:
            message = f"{key!r} is also the key of the schedule at {self.jobs[key][0]}; write using(key=…).declare(…)"
            raise BadDeclaration(place, what, (Problem("key", "not_unique", message),))
        self.jobs[key] = place, fields

    def stamp(self) -> int | None:
        """Return when the newest of the files was written, in seconds. None: there are none."""
        return max(self._written.values(), default=None)


def declared_sets(declared: Iterable[Schedules], build: int | None) -> tuple[DeclaredSet, ...]:
    """Return what is to be applied. `build` is the stamp; None: each set has that of its files.

    Invalid: two schedules have one key.
    """
    sets: dict[str, list[Schedules]] = {}
    places: dict[str, str] = {}
    alone: list[DeclaredSet] = []
    for one in declared:
        for key, (place, fields) in one.jobs.items():
            if key in places:
                message = f"{place}: {key!r} is also the key of the schedule at {places[key]}; keys must be unique"
                raise Invalid.of("tasks", "not_unique", message)
            places[key] = place
            if one.name is None:
                stamp = one.stamp() if build is None else build
                alone.append(DeclaredSet(f"{ALONE}{key}", False, stamp, (fields,), (place,)))
        if one.name is not None:
            sets.setdefault(one.name, []).append(one)
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


def _check(fields: Mapping[str, Any], *, named: bool) -> None:
    """Check what can be checked here: the rest depends on the server, such as which tasks are registered."""
    if (where := relative_time(fields["schedule"])) is not None:
        message = "would be another instant with each start; write an instant, like at('2027-01-31T09:00:00Z')"
        raise Invalid.of(f"schedule{where}", "relative_time", message)
    define(dict(fields), {}, SystemClock().now())
    if not named and len(fields["key"]) > LONGEST_NAME - len(ALONE):
        message = f"is longer than {LONGEST_NAME - len(ALONE)} characters; shorten it, or name the set: Tasks('shop')"
        raise Invalid.of("key", "out_of_range", message)
