"""Pydantic's models as JSON: their own schema, validation and dump. Pydantic is the user's: nothing imports it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, get_args, get_type_hints

import msgspec

_HIDDEN = b'"**********"'  # what pydantic writes instead of a secret
_RULES = {"pydantic", "annotated_types"}  # PositiveInt is made of the second
_MOST = 5  # faults of one model that are named


def is_model(kind: Any) -> bool:
    return isinstance(kind, type) and hasattr(kind, "__pydantic_validator__") and hasattr(kind, "model_dump")


def unread_rule(kind: Any, seen: tuple[Any, ...] = ()) -> str | None:
    """Say what in a type only pydantic would check. Outside of its models nobody does, and it would look as if."""
    if is_model(kind) or kind in seen:
        return None
    if isinstance(kind, type) and hasattr(kind, "__pydantic_validator__"):
        return f"the validators of {kind.__name__}, a dataclass of pydantic, would not run; use a BaseModel"
    for rule in getattr(kind, "__metadata__", ()):
        modules = {base.__module__.partition(".")[0] for base in type(rule).__mro__}
        if modules & _RULES and (getattr(rule, "metadata", True) or getattr(rule, "discriminator", None)):
            return f"{type(rule).__name__} is a rule of pydantic, checked in models only; use a model or msgspec.Meta"
    inner = list(get_args(kind))
    if isinstance(kind, type) and getattr(kind, "__annotations__", None):
        with suppress(NameError, TypeError):  # msgspec names what cannot be read
            inner += get_type_hints(kind, include_extras=True).values()
    return next(filter(None, (unread_rule(one, (*seen, kind)) for one in inner)), None)


def dumped(value: Any) -> Any:
    """Return a model as JSON values: an `enc_hook`. TypeError: it is none. ValueError: JSON would lose a part."""
    if not is_model(type(value)):
        raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")
    plain = value.model_dump(mode="json", by_alias=True)
    if _HIDDEN in msgspec.json.encode(plain):
        raise ValueError(f"{type(value).__name__} has a secret, which pydantic hides; use a parameter of oncue.Secret")
    return plain


def validated(kind: Any, given: Any) -> Any:
    """Return JSON values as the model: msgspec's `dec_hook`. ValueError: they do not fit."""
    if not is_model(kind):
        raise TypeError(f"Expected `{kind.__name__}`, got `{type(given).__name__}`")
    try:
        return kind.model_validate_json(msgspec.json.encode(given))
    except ValueError as wrong:
        raise ValueError(_faults(wrong)) from None


def schema_of(kind: Any) -> bytes:
    """Return the JSON Schema of a type that may contain models. TypeError: a type has none."""
    shared: dict[str, Any] = {}

    def of_model(one: Any) -> dict[str, Any]:
        if not is_model(one):
            raise NotImplementedError
        found: dict[str, Any] = one.model_json_schema(ref_template="#/$defs/{model}")
        for name, inner in found.pop("$defs", {}).items():
            _share(shared, name, inner)
        return found

    schema = msgspec.json.schema(kind, schema_hook=of_model)
    for name, inner in shared.items():
        _share(schema.setdefault("$defs", {}), name, inner)
    return msgspec.json.encode(schema)


def _share(definitions: dict[str, Any], name: str, inner: Any) -> None:
    if definitions.setdefault(name, inner) != inner:
        raise TypeError(f"two types are called {name}; rename one of them")


def _faults(wrong: ValueError) -> str:
    errors: Any = getattr(wrong, "errors", list)()
    said = [": ".join(filter(None, (".".join(map(str, one["loc"])), one["msg"]))) for one in errors[:_MOST]]
    return "; ".join(said + [f"and {len(errors) - _MOST} more"] * (len(errors) > _MOST)) or str(wrong)
