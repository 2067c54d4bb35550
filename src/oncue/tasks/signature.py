"""Read a task's signature: whether it takes the context, and the payload that its other parameters stand for."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from copy import deepcopy
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from oncue.context import Context
from oncue.domain.errors import Invalid
from oncue.domain.models import dumped, schema_of, unread_rule, validated

Parameter = inspect.Parameter
_BY_NAME = (Parameter.KEYWORD_ONLY, Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL)


class Parameters(msgspec.Struct, frozen=True):
    """`payload` is the struct of all parameters but the context; it refuses unknown fields."""

    takes_context: bool
    payload: type[msgspec.Struct]
    signature: inspect.Signature
    """Without the context."""
    returns: Any
    """The type of the result, if results can be read as that; else None."""


def read_signature(function: Callable[..., Any]) -> Parameters:
    """Invalid: a parameter cannot be filled from a payload, or the context is not the first parameter."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise _bad("is a generator, and a call would not run its body; return the values, as in a list")
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as wrong:  # a type imported for type checkers only; or a callable object
        raise _bad(f"cannot read the types of the signature: {wrong}") from None
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    takes_context = bool(parameters) and _is_context(parameters[0], hints)
    if takes_context and parameters[0].kind in _BY_NAME:
        raise _bad("the context must be the first parameter and no keyword-only one; write `def f(ctx: Context, …)`")
    of_payload = parameters[takes_context:]
    for parameter in of_payload:
        _check(parameter, hints)
    shown = signature.replace(parameters=of_payload)
    return Parameters(takes_context, _struct(of_payload, hints), shown, _readable(hints.get("return")))


def decoder(payload: type[msgspec.Struct]) -> tuple[Callable[[bytes], Any], bytes]:
    """Return what decodes a payload, and its JSON Schema. Invalid: a type has none."""
    try:
        return msgspec.json.Decoder(payload, dec_hook=validated).decode, schema_of(payload)
    except (TypeError, ValueError) as wrong:
        raise _bad(_why_no_schema(payload, wrong)) from None


def _why_no_schema(payload: type[msgspec.Struct], wrong: Exception) -> str:
    for field in msgspec.structs.fields(payload):
        try:
            schema_of(field.type)
        except TypeError as no:
            shown = field.type if get_args(field.type) else getattr(field.type, "__name__", field.type)
            if "Type unions" in str(no):  # of which msgspec tries none
                return f"parameter {field.name!r}: put the choice into one model, like RootModel[A | B], not {shown}"
            known = "write one like str, list[int], a dataclass or a pydantic model"
            return f"parameter {field.name!r}: {shown} is no type of JSON; {known}"
        try:
            msgspec.json.encode(None if field.default is msgspec.NODEFAULT else field.default, enc_hook=dumped)
        except (TypeError, ValueError) as error:
            return f"parameter {field.name!r}: its default is not JSON: {error}"
    return f"the parameters have no JSON Schema: {wrong}"


def _readable(kind: Any) -> Any:
    try:
        msgspec.json.Decoder(Any if kind is None else kind)
    except TypeError:  # a class of the user's own: results of it are shown as JSON has them
        return None
    return None if kind is Any else kind


def _is_context(parameter: Parameter, hints: dict[str, Any]) -> bool:
    hint = hints.get(parameter.name, Any)
    if hint is Any:
        return parameter.name == "ctx"
    kind = get_origin(hint) or hint
    return isinstance(kind, type) and issubclass(kind, Context)


def _check(parameter: Parameter, hints: dict[str, Any]) -> None:
    if _is_context(parameter, hints):
        raise _bad(f"parameter {parameter.name!r} is the context, which must be the first parameter")
    if unread := unread_rule(hints.get(parameter.name)):
        raise _bad(f"parameter {parameter.name!r}: {unread}")
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise _bad(f"parameter {parameter.name!r} is positional-only; remove the '/'")
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        stars = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**"
        raise _bad(f"parameter '{stars}{parameter.name}' is not allowed; name every parameter")


def _struct(parameters: list[Parameter], hints: dict[str, Any]) -> type[msgspec.Struct]:
    fields: list[Any] = []
    for parameter in parameters:
        field = (parameter.name, hints.get(parameter.name, Any))
        fields.append(field if parameter.default is parameter.empty else (*field, _default(parameter.default)))
    return msgspec.defstruct("Payload", fields, kw_only=True, forbid_unknown_fields=True)


def _default(value: Any) -> Any:
    """Copy a mutable default for every run, unlike in a plain call."""
    return msgspec.field(default_factory=lambda: deepcopy(value)) if value.__class__.__hash__ is None else value


def _bad(message: str) -> Invalid:
    return Invalid.of("task", "bad_signature", message)
