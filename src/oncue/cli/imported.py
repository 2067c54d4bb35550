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

NOT_TRANSLATED = "not translated"  # how such notes begin
LONGEST_KEY = 60  # characters of a key that is made here


class Entry(msgspec.Struct, frozen=True):
    """One entry of the other scheduler. `job` is None if it cannot be translated; `notes` say what to know."""

    source: str
    job: dict[str, Any] | None = None
    notes: tuple[str, ...] = ()


def print_file(name: str, entries: Iterable[Entry], header: Sequence[str], now: Instant, *, as_json: bool) -> None:
    """Print a set for `oncue apply`. A job that oncue would refuse is a comment with the reason.

    How much was translated goes to standard error; as JSON, which has no comments, also what was not.
    """
    taken: set[str] = set()
    checked = [_checked(entry, taken, now) for entry in entries]
    if not as_json:
        say(_as_yaml(name, checked, header), nl=False)
        say(_summary(checked, ": see the comments"), err=True)
        return
    for entry in checked:
        for note in entry.notes:
            say(f"{entry.source}: {note}", err=True)
    print_json({"set": name, "jobs": [entry.job for entry in checked if entry.job is not None]})
    say(_summary(checked), err=True)


def _summary(entries: Sequence[Entry], more: str = "") -> str:
    """Such as `4 jobs; 1 schedule and 1 option not translated`."""
    jobs = [entry for entry in entries if entry.job is not None]
    options = sum(note.startswith(NOT_TRANSLATED) for entry in jobs for note in entry.notes)
    left = [_number(n, word) for n, word in ((len(entries) - len(jobs), "schedule"), (options, "option")) if n]
    return _number(len(jobs), "job") + (f"; {' and '.join(left)} {NOT_TRANSLATED}{more}" if left else "")


def _number(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


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
