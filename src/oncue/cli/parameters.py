"""The arguments of a task as they are typed: `name=text` and `name:=json`."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from shlex import quote
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from oncue.cli.completing import parameter_names
from oncue.cli.job_options import json_fault

if TYPE_CHECKING:
    from oncue.client import FieldProblem

T = TypeVar("T")

PARAMETERS = click.argument("parameters", nargs=-1, metavar="[NAME=TEXT|NAME:=JSON]...", shell_complete=parameter_names)
SAMPLES = {
    "integer": ("a whole number", "7"),
    "number": ("a number", "2.5"),
    "boolean": ("true or false", "true"),
    "array": ("an array", '["a", "b"]'),
    "object": ("an object", '{"a": 7}'),
}
_TYPES = re.compile(r" is not of types? (.+)\Z")


def typed_as_taken(send: Callable[[dict[str, Any]], T], payload: dict[str, Any], texts: Collection[str]) -> T:
    """Send a payload. Texts that the task does not take as such are sent once more as the JSON they are: `1` is 1."""
    from oncue.client import Invalid as Refused

    try:
        return send(payload)
    except Refused as no:
        first = {one.path: one for one in no.errors if one.code == "mismatch"}
        as_json = {name: _json_of(payload[name]) for name in texts if f"payload.{name}" in first}
        as_json = {name: value for name, value in as_json.items() if not isinstance(value, str)}
        if as_json:
            try:
                return send({**payload, **as_json})
            except Refused as again:
                no = again
        # A value of the right type that is refused for another reason is told as it is: 11 is more than 10.
        texts_first = (first.get(one.path, one) if _TYPES.search(one.message) else one for one in no.errors)
        no.errors = tuple(_with_sample(one, texts) for one in texts_first)
        raise no from None


def _json_of(value: str) -> Any:
    """Decode a text; one that is not JSON stays as it is."""
    try:
        return msgspec.json.decode(value)
    except msgspec.DecodeError:
        return value


def _with_sample(problem: FieldProblem, texts: Collection[str]) -> FieldProblem:
    """Show how to write a value of the type that the task takes in place of this text."""
    name, found = problem.path.removeprefix("payload."), _TYPES.search(problem.message)
    samples = [SAMPLES[one] for one in re.findall(r'"(\w+)"', found[1]) if one in SAMPLES] if found else []
    if name not in texts or not samples:
        return problem
    kind, sample = samples[0]
    written = f"{name}:={sample}"
    written = written if written.isascii() and " " not in written else f"'{written}'"
    return msgspec.structs.replace(problem, message=f"{problem.message}; write {kind}, like {written}")


def texts_of(parameters: tuple[str, ...]) -> frozenset[str]:
    """Return the names of the parameters that are given as text."""
    return frozenset(name for name in (one.partition("=")[0] for one in parameters) if not name.endswith(":"))


def payload_from(parameters: tuple[str, ...], option: str | None = None) -> dict[str, Any]:
    """Turn `name=text` and `name:=json` into a payload; `option` is a --payload, which excludes them."""
    if parameters and option is not None:
        raise click.UsageError("Give one of --payload and parameters like name=text.")
    payload: dict[str, Any] = {}
    for one in parameters:
        name, equals, value = one.partition("=")
        as_json = name.endswith(":")
        name = name.removesuffix(":")
        if not equals or not name:
            raise click.UsageError(f"{one!r} is not a parameter; write name=text, or name:=json like width:=200")
        if name in payload:
            raise click.UsageError(f"Parameter {name!r} is given twice.")
        try:
            payload[name] = msgspec.json.decode(value) if as_json else value
        except msgspec.DecodeError as wrong:
            raise click.UsageError(f"{one!r}: what follows := is not JSON: {json_fault(value, wrong)}") from None
    return payload


def payload_names(payload: Mapping[str, Any]) -> dict[str, str]:
    """Map the fields of a payload to what was typed."""
    return {f"payload.{name}": name for name in payload}


def as_parameter(option: str, typed: Sequence[str]) -> str:
    """Return how to write what was typed as an option: `--order 7` is `order=7`."""
    place = next(place for place, one in enumerate(typed) if one.partition("=")[0] == option)
    _, equals, value = typed[place].partition("=")
    following = typed[place + 1] if place + 1 < len(typed) else "-"
    name = option.removeprefix("--").replace("-", "_")
    if not equals and (following.startswith("-") or "=" in following):
        return f"{name}:=true"
    return quote(f"{name}={value if equals else following}")
