"""Jobs that were translated from another scheduler, as a file for `oncue apply` with comments."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from oncue.cli.job_export import as_yaml
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


def as_file(name: str, entries: Iterable[Entry], notes: Sequence[str], now: Instant) -> str:
    """Return the YAML of a set. A job that oncue would refuse is a comment with the reason."""
    checked = [_checked(entry, now) for entry in entries]
    lines = [*_comments(notes), as_yaml({"set": name}).rstrip()]
    lines.append("jobs:" if any(entry.job for entry in checked) else "jobs: []")
    taken: set[str] = set()
    for entry in checked:
        lines += ["", *(f"  {line}" for line in _comments([entry.source, *entry.notes]))]
        if entry.job is not None:
            job = {"key": _unique(entry.job["key"], taken), **{k: v for k, v in entry.job.items() if k != "key"}}
            lines += [f"  {line}".rstrip() for line in as_yaml([job]).splitlines()]
    return "\n".join(lines) + "\n"


def key_of(words: str) -> str:
    """Return a key made of these words, like `backup-sh`."""
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")[:LONGEST_KEY].strip("-") or "job"


def _checked(entry: Entry, now: Instant) -> Entry:
    if entry.job is None:
        return entry
    try:
        define(entry.job, {}, now)
    except Invalid as wrong:
        return Entry(entry.source, None, (*entry.notes, f"not translated: {wrong}"))
    return entry


def _unique(key: str, taken: set[str]) -> str:
    number, found = 1, key
    while found in taken:
        number += 1
        found = f"{key}-{number}"
    taken.add(found)
    return found


def _comments(notes: Iterable[str]) -> list[str]:
    return [f"# {showable(line)}".rstrip() for note in notes for line in note.splitlines()]
