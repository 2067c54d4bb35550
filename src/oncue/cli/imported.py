"""Jobs that were translated from another scheduler, as a file for `oncue apply` with comments."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from oncue.cli.job_export import as_yaml
from oncue.cli.printing import print_json, say
from oncue.domain.definition import define
from oncue.domain.errors import Invalid
from oncue.domain.instants import Instant
from oncue.domain.plain_text import showable

LONGEST_KEY = 60  # characters of a key that is made here


class Entry(msgspec.Struct, frozen=True):
    """One entry of the other scheduler. `job` is None if it cannot be translated; `notes` say what to know."""

    source: str
    job: dict[str, Any] | None = None
    notes: tuple[str, ...] = ()


def print_file(name: str, entries: Iterable[Entry], header: Sequence[str], now: Instant, *, as_json: bool) -> None:
    """Print a set for `oncue apply`. A job that oncue would refuse is a comment with the reason.

    JSON has no comments: what was not translated goes to standard error.
    """
    taken: set[str] = set()
    checked = [_checked(entry, taken, now) for entry in entries]
    if not as_json:
        say(_as_yaml(name, checked, header), nl=False)
        return
    for entry in checked:
        for note in entry.notes:
            say(f"{entry.source}: {note}", err=True)
    print_json({"set": name, "jobs": [entry.job for entry in checked if entry.job is not None]})


def _as_yaml(name: str, entries: Sequence[Entry], header: Sequence[str]) -> str:
    lines = [*_comments(header), as_yaml({"set": name}).rstrip()]
    lines.append("jobs:" if any(entry.job for entry in entries) else "jobs: []")
    for entry in entries:
        lines += ["", *(f"  {line}" for line in _comments([entry.source, *entry.notes]))]
        if entry.job is not None:
            lines += [f"  {line}".rstrip() for line in as_yaml([entry.job]).splitlines()]
    return "\n".join(lines) + "\n"


def key_of(words: str) -> str:
    """Return a key made of these words, like `backup-sh`."""
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")[:LONGEST_KEY].strip("-") or "job"


def _checked(entry: Entry, taken: set[str], now: Instant) -> Entry:
    if entry.job is None:
        return entry
    try:
        define(entry.job, {}, now)
    except Invalid as wrong:
        return Entry(entry.source, None, (*entry.notes, f"not translated: {wrong}"))
    return Entry(entry.source, {**entry.job, "key": _unique(entry.job["key"], taken)}, entry.notes)


def _unique(key: str, taken: set[str]) -> str:
    number, found = 1, key
    while found in taken:
        number += 1
        found = f"{key}-{number}"
    taken.add(found)
    return found


def _comments(notes: Iterable[str]) -> list[str]:
    return [f"# {showable(line)}".rstrip() for note in notes for line in note.splitlines()]
