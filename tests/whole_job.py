"""A job in which every field there is says something, made from what the API says that each takes."""

from __future__ import annotations

from typing import Any

import msgspec

from oncue.api.openapi import document

# A schema cannot tell what these may say.
SAID: dict[str, Any] = {
    "task": "mark",
    "schedule": {"cron": "0 0 1 1 *"},
    "notify": [{"on": ["late"], "webhook": {"url": "https://example.org/x"}, "late_after": "5m", "text": "x"}],
}


def whole_job() -> dict[str, Any]:
    schemas = msgspec.json.decode(document())["components"]["schemas"]
    return {name: example(schema, schemas) for name, schema in schemas["NewJob"]["properties"].items()} | SAID


def example(schema: dict[str, Any], schemas: dict[str, Any]) -> Any:
    """Something that fits, and is not the default of any field."""
    match schema:
        case {"$ref": ref}:
            return example(schemas[ref.rpartition("/")[2]], schemas)
        case {"anyOf": [first, *_]}:
            return example(first, schemas)
        case {"enum": values}:
            return values[-1]
        case {"examples": [first, *_]}:
            return first
        case {"type": "string"}:
            return "x"
        case {"type": "integer" | "number", "minimum": least, "maximum": most}:
            return min(least + 1, most)
        case {"type": "boolean"}:
            return True
        case {"type": "array", "items": items}:
            return [example(items, schemas)]
        case {"type": "object", "properties": properties}:
            return {name: example(one, schemas) for name, one in properties.items()}
        case {"type": "object"}:
            return {"x": 1}
    raise AssertionError(f"no example of {schema}")
