"""The arguments of a call as the payload of a job, and back. Each parameter is a field of the payload.

Django passes JSON values on as they are, so types of the signature are not looked at: only names are checked.
`*args` is a field with a list, and `**kwargs` one with an object.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import BoundArguments, Parameter, Signature, signature
from typing import Annotated, Any

import msgspec

from oncue.context import Context

_VALUE = Annotated[Any, msgspec.Meta()]  # not plain Any: a parameter without type that is called ctx is the context
_TYPES: dict[Any, Any] = {Parameter.VAR_POSITIONAL: list[Any], Parameter.VAR_KEYWORD: dict[str, Any]}


def of_call(function: Callable[..., Any], *, takes_context: bool) -> Signature:
    """Return the signature that callers fill: without the context."""
    found = signature(function)
    return found.replace(parameters=list(found.parameters.values())[1:]) if takes_context else found


def described(function: Callable[..., Any], of: Callable[..., Any], call: Signature) -> Callable[..., Any]:
    """Give what a worker calls the signature of the payload, and name and place of the function `of` that it calls."""
    shown: Any = function
    shown.__wrapped__ = of  # errors name its file and line
    shown.__signature__ = found = _of_run(call)
    shown.__annotations__ = {name: one.annotation for name, one in found.parameters.items()}
    for name in ("__module__", "__qualname__", "__name__", "__doc__"):
        setattr(shown, name, getattr(of, name))
    return function


def _of_run(call: Signature) -> Signature:
    """A context, and the fields of the payload by name."""
    context = Parameter("oncue_context", Parameter.POSITIONAL_ONLY, annotation=Context[Any])
    return Signature([context, *map(_field, call.parameters.values())])


def _field(parameter: Parameter) -> Parameter:
    required = parameter.default is Parameter.empty and parameter.kind not in _TYPES
    default = Parameter.empty if required else msgspec.UNSET
    kind = _TYPES.get(parameter.kind, _VALUE)
    return Parameter(parameter.name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def bound(call: Signature, payload: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the positional and the keyword arguments that a payload stands for."""
    given = {name: payload[name] for name in call.parameters if payload.get(name, msgspec.UNSET) is not msgspec.UNSET}
    found = BoundArguments(call, given)
    return list(found.args), found.kwargs
