"""JSON Merge Patch, RFC 7396: an object that says what changes in another."""

from __future__ import annotations

from typing import Any


def patched(value: Any, patch: Any) -> Any:
    """Return the value with the patch applied: null removes a name, objects are merged, anything else replaces.

    Neither argument changes. The patch is not nested deeper than a payload may be.
    """
    if not isinstance(patch, dict):
        return patch
    found = dict(value) if isinstance(value, dict) else {}
    for name, change in patch.items():
        if change is None:
            found.pop(name, None)
        else:
            found[name] = patched(found.get(name), change)
    return found
