"""Read a YAML file of job definitions. Reading is strict: `no` stays text, and a repeated name is an error."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import yaml  # type: ignore[import-untyped]  # it comes without types

from oncue.cli.job_changes import TAG
from oncue.domain.errors import Invalid, Problem

_YAML = "tag:yaml.org,2002:"
_TEXT, _MERGE = f"{_YAML}str", f"{_YAML}merge"
_PATTERNS = {
    f"{_YAML}null": re.compile(r"^(?:null|~|)\Z"),
    f"{_YAML}bool": re.compile(r"^(?:true|false)\Z"),
    f"{_YAML}int": re.compile(r"^-?(?:0|[1-9][0-9]*)\Z"),
    f"{_YAML}float": re.compile(r"^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?\Z"),
}
LARGEST = 32 * 1024 * 1024  # bytes
MOST_VALUES = 1_000_000  # with each alias counted as its expansion

_JSON = {_TEXT, f"{_YAML}seq", f"{_YAML}map", None, *_PATTERNS}  # None: any other tag, which is refused


class JobFile(msgspec.Struct, frozen=True):
    """The jobs of one set. `named`: the file itself names the set; otherwise its file name does."""

    set: str
    named: bool
    jobs: tuple[dict[str, Any], ...]

    @property
    def tag(self) -> str:
        return f"{TAG}{self.set}"


def read_job_file(file: Path) -> JobFile:
    """Read and check a file. Invalid: lists every problem with its place."""
    found = _parsed(file)
    named: dict[str, Any] = {"jobs": found} if isinstance(found, list) else found
    if not isinstance(named, dict) or not isinstance(named.get("jobs"), list):
        raise Invalid.of(file.name, "wrong_type", "must be a list of jobs, or an object with the fields set and jobs")
    problems = [
        Problem(str(name), "unknown_field", f"unknown field {str(name)!r}; a file has the fields set and jobs")
        for name in named
        if name not in ("set", "jobs")
    ]
    owner = named.get("set", file.stem)
    if not isinstance(owner, str) or not owner:
        problems.append(Problem("set", "wrong_type", "must be the name of the set, like shop"))
    problems += _job_problems(named["jobs"])
    if problems:
        raise Invalid(*problems)
    return JobFile(owner, "set" in named, tuple(named["jobs"]))


def _job_problems(jobs: list[Any]) -> list[Problem]:
    problems, seen = [], set()
    for place, job in enumerate(jobs):
        where = f"jobs.{place}"
        if not isinstance(job, dict):
            problems.append(Problem(where, "wrong_type", "must be an object with the fields of a job"))
            continue
        key, tags = job.get("key"), job.get("tags", [])
        if not isinstance(key, str) or not key:
            problems.append(Problem(f"{where}.key", "required", "is required: apply finds each job by its key"))
        elif key in seen:
            problems.append(Problem(f"{where}.key", "not_unique", f"{key!r} appears twice; keys must be unique"))
        seen.add(key if isinstance(key, str) else None)
        if tags is not None and not isinstance(tags, list):
            problems.append(Problem(f"{where}.tags", "wrong_type", "must be a list, like [a, b]"))
        elif tags is not None and any(isinstance(tag, str) and tag.startswith(TAG) for tag in tags):
            problems.append(Problem(f"{where}.tags", "reserved", f"must not contain a tag that begins with {TAG}"))
    return problems


def _parsed(file: Path) -> Any:
    try:
        with file.open("rb") as opened:  # a pipe may be endless
            said = opened.read(LARGEST + 1)
        if len(said) > LARGEST:
            raise Invalid.of(file.name, "too_large", f"is larger than {LARGEST} bytes; split it into several files")
        return yaml.load(said, _PlainLoader)
    except OSError as wrong:
        raise Invalid.of(str(file), "unreadable", f"cannot be read: {wrong.strerror}") from None
    except yaml.MarkedYAMLError as wrong:
        mark = wrong.problem_mark
        where = file.name if mark is None else f"{file.name}, line {mark.line + 1}, column {mark.column + 1}"
        raise Invalid.of(where, "unreadable", wrong.problem or "is not YAML") from None
    except (yaml.YAMLError, ValueError) as wrong:  # ValueError: a number with thousands of digits
        raise Invalid.of(file.name, "unreadable", str(wrong)) from None
    except RecursionError:
        raise Invalid.of(file.name, "unreadable", "is nested too deeply") from None


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
