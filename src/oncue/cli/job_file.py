"""Read a YAML file of job definitions. Reading is strict: `no` stays text, and a repeated name is an error."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import click
import msgspec
import yaml  # type: ignore[import-untyped]  # it comes without types

from oncue.domain.errors import Invalid, Problem
from oncue.domain.plain_json import not_plain
from oncue.domain.plain_text import printable

_YAML = "tag:yaml.org,2002:"
_TEXT, _MERGE = f"{_YAML}str", f"{_YAML}merge"
_PATTERNS = {
    f"{_YAML}null": re.compile(r"^(?:null|~|)\Z"),
    f"{_YAML}bool": re.compile(r"^(?:true|false)\Z"),
    f"{_YAML}int": re.compile(r"^-?(?:0|[1-9][0-9]*)\Z"),
    f"{_YAML}float": re.compile(r"^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?\Z"),
}
SUFFIXES = (".yaml", ".yml", ".json")
LARGEST = 32 * 1024 * 1024  # bytes
MOST_VALUES = 1_000_000  # with each alias counted as its expansion

_JSON = {_TEXT, f"{_YAML}seq", f"{_YAML}map", None, *_PATTERNS}  # None: any other tag, which is refused


def reads_as_text(words: str) -> bool:
    """Whether a plain scalar with these words is text here."""
    return not any(pattern.match(words) for pattern in _PATTERNS.values()) and words != "<<"


class JobSet(msgspec.Struct, frozen=True):
    """The jobs of one set, from one file or several. `named`: a file names the set; otherwise its file name does."""

    set: str
    named: bool
    jobs: tuple[Any, ...]
    files: tuple[str, ...]
    """The file of each job, of code with the line; of a set without jobs, its file."""

    stamp: int | None = None
    """That of code: when it was written."""

    def name_of(self, number: int) -> str:
        """Return the key of a job, or its place if it has none; with its file, if there are several."""
        job = self.jobs[number]
        key = job.get("key") if isinstance(job, dict) else None
        name = key if isinstance(key, str) and key else f"jobs.{number}"
        return f"{self.files[number]}: {name}" if len(set(self.files)) > 1 else name


def read_job_sets(sources: Sequence[str]) -> list[JobSet]:
    """Read files, directories, Python code and, for `-`, standard input; files that name the same set are one set.

    Invalid: what is wrong with a file, and where. The server checks the jobs themselves.
    """
    from oncue.cli.code_sets import is_code, read_code_sets

    sets: dict[str, JobSet] = {}
    code = [source for source in sources if is_code(source)]
    files = (file for source in sources if source not in code for file in _files(source))
    for found in (*map(read_job_file, files), *(read_code_sets(code) if code else ())):
        before = sets.get(found.set)
        if before is not None and not (before.named and found.named):
            message = f"is also the set of {before.files[0]}; name the set in both files if they belong together"
            raise Invalid.of(f"{found.files[0]}: set", "not_unique", message)
        sets[found.set] = found if before is None else _together(before, found)
    if problems := [problem for one in sets.values() for problem in _unsendable(one)]:
        raise Invalid(*problems)
    return list(sets.values())


def _unsendable(jobs: JobSet) -> Iterator[Problem]:
    """Yield what the server would refuse without the place: half a surrogate pair, a number that does not fit."""
    for number, job in enumerate(jobs.jobs):
        for one in not_plain(job, ""):
            if one.code != "too_deep":  # the server has the limit, and names the place
                yield Problem(f"{printable(jobs.name_of(number))}: {one.path[1:]}", one.code, one.message)


def _together(one: JobSet, other: JobSet) -> JobSet:
    files = one.files[: len(one.jobs)] + other.files[: len(other.jobs)]
    return JobSet(one.set, True, one.jobs + other.jobs, files or one.files, other.stamp)


def _files(source: str) -> list[Path | None]:
    """Return the files to read; None: standard input."""
    if source == "-":
        return [None]
    try:
        if not (folder := Path(source)).is_dir():
            return [folder]
        found = sorted(file for file in folder.iterdir() if file.suffix in SUFFIXES and file.is_file())
    except OSError as wrong:  # the name is too long, or the folder is another user's
        raise Invalid.of(source, "unreadable", f"cannot be read: {wrong.strerror}") from None
    if not found:
        raise Invalid.of(source, "unreadable", f"has no file that ends with {', '.join(SUFFIXES)}")
    return list(found)


def read_job_file(file: Path | None) -> JobSet:
    """Read a file. None: standard input, which must name its set."""
    name = "standard input" if file is None else file.name
    found = _parsed(file, name)
    said: dict[str, Any] = {"jobs": found} if isinstance(found, list) else found
    if not isinstance(said, dict) or not isinstance(said.get("jobs"), list):
        raise Invalid.of(name, "wrong_type", "must be a list of jobs, or an object with the fields set and jobs")
    problems = [
        Problem(str(field), "unknown_field", f"unknown field {str(field)!r}; a file has the fields set and jobs")
        for field in said
        if field not in ("set", "jobs")
    ]
    owner = said.get("set", None if file is None else file.stem)
    if not isinstance(owner, str) or not owner:
        problems.append(Problem("set", "wrong_type", "must be the name of the set, like shop"))
    if problems:
        raise Invalid(*problems)
    return JobSet(str(owner), "set" in said, tuple(said["jobs"]), (name,) * max(1, len(said["jobs"])))


def _parsed(file: Path | None, name: str) -> Any:
    try:
        with click.open_file("-" if file is None else str(file), "rb") as opened:  # a pipe may be endless
            said = opened.read(LARGEST + 1)
        if len(said) > LARGEST:
            raise Invalid.of(name, "too_large", f"is larger than {LARGEST} bytes; split it into several files")
        return yaml.load(said, _PlainLoader)
    except OSError as wrong:
        raise Invalid.of(
            name if file is None else str(file), "unreadable", f"cannot be read: {wrong.strerror}"
        ) from None
    except yaml.MarkedYAMLError as wrong:
        mark = wrong.problem_mark
        where = name if mark is None else f"{name}, line {mark.line + 1}, column {mark.column + 1}"
        raise Invalid.of(where, "unreadable", wrong.problem or "is not YAML") from None
    except (yaml.YAMLError, ValueError) as wrong:  # ValueError: a number with thousands of digits
        raise Invalid.of(name, "unreadable", str(wrong).partition("\n")[0]) from None
    except RecursionError:
        raise Invalid.of(name, "unreadable", "is nested too deeply") from None


class _PlainLoader(yaml.SafeLoader):  # type: ignore[misc]  # of a class without types
    """Loads JSON's values only: `on`, `no` and instants are text. Each name is text and appears once."""

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}
    yaml_constructors: ClassVar[dict[str | None, Any]] = {
        tag: make for tag, make in yaml.SafeLoader.yaml_constructors.items() if tag in _JSON
    }

    def compose_document(self) -> Any:
        """Refuse aliases that expand to too many values: nested ones can reach billions, or contain themselves."""
        node = super().compose_document()
        if _values(node, {}) > MOST_VALUES:
            raise yaml.composer.ComposerError(None, None, f"expands to more than {MOST_VALUES} values", node.start_mark)
        return node

    def compose_scalar_node(self, anchor: Any) -> Any:
        """Check that a value with an explicit tag, such as !!int, has the syntax of JSON."""
        node = super().compose_scalar_node(anchor)
        pattern = _PATTERNS.get(node.tag)
        if pattern is not None and pattern.match(node.value) is None:
            told = f"{node.value!r} is not a JSON {node.tag.removeprefix(_YAML)}"
            raise yaml.composer.ComposerError(None, None, told, node.start_mark)
        return node

    def compose_mapping_node(self, anchor: Any) -> Any:
        node = super().compose_mapping_node(anchor)
        seen = set()
        for name, _ in node.value:
            if not isinstance(name, yaml.ScalarNode) or name.tag not in (_TEXT, _MERGE):
                told = f"the name {getattr(name, 'value', '')} is not text; put it in quotes"
                raise yaml.composer.ComposerError(None, None, told, name.start_mark)
            if name.value in seen:
                raise yaml.composer.ComposerError(None, None, f"{name.value!r} appears twice", name.start_mark)
            seen.add(name.value)
        return node


def _values(node: Any, known: dict[int, int]) -> int:
    """Count the values that a node expands to."""
    if isinstance(node, yaml.ScalarNode):
        return 1
    if id(node) not in known:
        known[id(node)] = MOST_VALUES + 1  # in case it contains itself
        inner = (one for pair in node.value for one in (pair if isinstance(pair, tuple) else (pair,)))
        known[id(node)] = 1 + sum(_values(one, known) for one in inner)
    return known[id(node)]


for _tag, _first in (("null", ["n", "~", ""]), ("bool", "tf"), ("int", "-0123456789"), ("float", "-0123456789")):
    _PlainLoader.add_implicit_resolver(f"{_YAML}{_tag}", _PATTERNS[f"{_YAML}{_tag}"], list(_first))
_PlainLoader.add_implicit_resolver(_MERGE, re.compile(r"^<<$"), ["<"])
