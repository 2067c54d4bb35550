"""Read a YAML file of job definitions. Reading is strict: `no` stays text, and a repeated name is an error."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import click
import msgspec
import yaml  # type: ignore[import-untyped]  # it comes without types

from oncue.domain.errors import Invalid, Problem, bounded, tried
from oncue.domain.fields import shown
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


class Place(msgspec.Struct, frozen=True):
    """Where something is written: a file, of code with the line; of YAML and JSON, also its node."""

    file: str
    node: Any = None

    def of(self, path: str = "") -> str:
        """Return `file:line` of a field, or of what is nearest above it."""
        return self.file if self.node is None else f"{self.file}:{_line(self.node, path.split('.')) + 1}"


class JobSet(msgspec.Struct, frozen=True):
    """The jobs of one set, from one file or several. `named`: a file names the set; otherwise its file name does."""

    set: str
    named: bool
    jobs: tuple[Any, ...]
    places: tuple[Place, ...]
    """That of each job; of a set without jobs, its file's."""

    stamp: int | None = None
    """That of code: when it was written."""

    wrong: tuple[Problem, ...] = ()
    """What is wrong with its files although its jobs could be read."""

    def name_of(self, number: int, field: str = "") -> str:
        """Return the line of a field of a job, and the key of the job, or its place if it has none."""
        job = self.jobs[number]
        key = job.get("key") if isinstance(job, dict) else None
        name = key if isinstance(key, str) and key else f"jobs.{number}"
        return f"{self.places[number].of(field)}: {name}"


def read_job_sets(sources: Sequence[str]) -> tuple[list[JobSet], list[Problem]]:
    """Read files, directories, Python code and, for `-`, standard input; files that name the same set are one set.

    Return with them all that is wrong with files, and where. The server checks the jobs themselves.
    """
    from oncue.cli.code_sets import is_code, read_code_sets

    sets: dict[str, JobSet] = {}
    problems: list[Problem] = []
    code = [source for source in sources if is_code(source)]
    files = [file for source in sources if source not in code for file in tried(problems, _files, source) or ()]
    read = [tried(problems, read_job_file, file) for file in files]
    read += (tried(problems, read_code_sets, code) or []) if code else []
    for found in filter(None, read):
        before = sets.get(found.set)
        if before is not None and not (before.named and found.named):
            message = f"is also the set of {before.places[0].of()}; name the set in both files if they belong together"
            problems.append(Problem(f"{found.places[0].of()}: set", "not_unique", message))
        else:
            sets[found.set] = found if before is None else _together(before, found)
    return [one for one in sets.values() if not _refuse_unsendable(one, problems)], problems


def _refuse_unsendable(jobs: JobSet, problems: list[Problem]) -> bool:
    """Add what is wrong with the files of a set. Return whether the server could not even read its jobs: they have half
    a surrogate pair, or a number that does not fit, and it could not name the place.
    """
    problems += jobs.wrong
    unsendable = bounded(
        Problem(f"{printable(jobs.name_of(number, one.path[1:]))}: {one.path[1:]}", one.code, one.message)
        for number, job in enumerate(jobs.jobs)
        for one in not_plain(job, "")
        if one.code != "too_deep"  # the server has the limit, and names the place
    )
    problems += unsendable
    return bool(unsendable)


def _together(one: JobSet, other: JobSet) -> JobSet:
    places = one.places[: len(one.jobs)] + other.places[: len(other.jobs)]
    wrong = one.wrong + other.wrong
    return JobSet(one.set, True, one.jobs + other.jobs, places or one.places, other.stamp, wrong)


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
    name = "standard input" if file is None else str(file)
    found, node, wrong = _parsed(file, name)
    said: dict[str, Any] = {"jobs": found} if isinstance(found, list) else found
    if not isinstance(said, dict) or not isinstance(said.get("jobs"), list):
        raise Invalid.of(name, "wrong_type", "must be a list of jobs, or an object with the fields set and jobs")
    whole = Place(name, node)
    wrong += [
        Problem(f"{whole.of(field)}: {printable(field)}", "unknown_field", "unknown field; a file has set and jobs")
        for field in said
        if field not in ("set", "jobs")
    ]
    owner = said.get("set", None if file is None else file.stem)
    if not isinstance(owner, str) or not owner:
        message = f"must be the name of the set, like shop{f', not {shown(owner)}' if 'set' in said else ''}"
        raise Invalid(*wrong, Problem(f"{whole.of('set')}: set", "wrong_type", message))
    nodes = node if isinstance(node, yaml.SequenceNode) else _field(node, "jobs")[1]
    places = tuple(Place(name, one) for one in nodes.value)
    return JobSet(owner, "set" in said, tuple(said["jobs"]), places or (whole,), None, tuple(wrong))


def _field(node: Any, name: str) -> tuple[Any, Any]:
    """Return the nodes of the name and the value of a field. What is written last counts: << comes first."""
    return next(((key, value) for key, value in reversed(node.value) if key.value == name), (None, None))


def _line(node: Any, path: Sequence[str]) -> int:
    """Return the line of what is at this path, counted from 0, or of what is nearest above."""
    line: int = node.start_mark.line
    for part in path:
        key, value = None, None
        if isinstance(node, yaml.MappingNode):
            key, value = _field(node, part)
        elif isinstance(node, yaml.SequenceNode) and part.isdecimal() and int(part) < len(node.value):
            key = value = node.value[int(part)]
        if key is None:
            break
        line, node = key.start_mark.line, value
    return line


def _parsed(file: Path | None, name: str) -> tuple[Any, Any, list[Problem]]:
    """Return what a file says, its node, and which names in it are wrong."""
    try:
        with click.open_file("-" if file is None else str(file), "rb") as opened:  # a pipe may be endless
            said = opened.read(LARGEST + 1)
        if len(said) > LARGEST:
            raise Invalid.of(name, "too_large", f"is larger than {LARGEST} bytes; split it into several files")
        loader = _PlainLoader(said)
        try:
            node = loader.get_single_node()
            found = None if node is None else loader.construct_document(node)
        finally:
            loader.dispose()
        return found, node, [Problem(_at(name, mark), "unreadable", message) for mark, message in loader.wrong]
    except OSError as wrong:
        raise Invalid.of(
            name if file is None else str(file), "unreadable", f"cannot be read: {wrong.strerror}"
        ) from None
    except yaml.MarkedYAMLError as wrong:
        raise Invalid.of(_at(name, wrong.problem_mark), "unreadable", wrong.problem or "is not YAML") from None
    except (yaml.YAMLError, ValueError) as wrong:  # ValueError: a number with thousands of digits
        raise Invalid.of(name, "unreadable", str(wrong).partition("\n")[0]) from None
    except RecursionError:
        raise Invalid.of(name, "unreadable", "is nested too deeply") from None


def _at(name: str, mark: Any) -> str:
    return name if mark is None else f"{name}, line {mark.line + 1}, column {mark.column + 1}"


class _PlainLoader(yaml.SafeLoader):  # type: ignore[misc]  # of a class without types
    """Loads JSON's values only: `on`, `no` and instants are text. Each name is text and appears once; others are left
    out, and in `wrong`, with their mark.
    """

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}
    yaml_constructors: ClassVar[dict[str | None, Any]] = {
        tag: make for tag, make in yaml.SafeLoader.yaml_constructors.items() if tag in _JSON
    }

    def __init__(self, stream: bytes) -> None:
        super().__init__(stream)
        self.wrong: list[tuple[Any, str]] = []

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
        seen: dict[str, tuple[Any, Any]] = {}
        for name, value in node.value:
            if not isinstance(name, yaml.ScalarNode) or name.tag not in (_TEXT, _MERGE):
                said = printable(name.value) if isinstance(name, yaml.ScalarNode) else "of a field"
                self.wrong.append((name.start_mark, f"the name {said} is not text; put it in quotes"))
            elif name.value in seen:
                self.wrong.append((name.start_mark, f"{printable(name.value)!r} appears twice"))
            else:
                seen[name.value] = name, value
        node.value = list(seen.values())
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
