"""Calls on schedules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from oncue.client.call import Call, change, model, path
from oncue.shapes.jobs import Preview, When


def preview(
    schedule: When | Mapping[str, Any], *, count: int | None = None, after: When | None = None
) -> Call[Preview]:
    """Preview when a schedule fires, without storing it."""
    asked = {"schedule": schedule, "count": count, "after": after}
    body = {name: value for name, value in asked.items() if value is not None}
    call = change("POST", path("schedules", "preview"), model(Preview), body)
    return msgspec.structs.replace(call, reads=True)
