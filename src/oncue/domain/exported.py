"""A job as a declaration for `oncue apply`: what equals a default is left out."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from oncue.domain.declared import TAG
from oncue.domain.definition import define
from oncue.domain.instants import Instant
from oncue.domain.shown_definition import show_definition
from oncue.shapes.jobs import JobFields

ORDER = ("key", *(name for name in JobFields.__annotations__ if name != "key"))
PARTS = ("retry", "resources")  # objects whose members have defaults of their own
_EMPTY: tuple[Any, ...] = (None, [], {})
_ZONED = {"timezone": "UTC", "dst_gap": "shift", "dst_fold": "first"}


def exported(job: Mapping[str, Any], task_defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the definition of a job, as the API shows it, without what it would have anyway."""
    usual = _usual(job["task"], msgspec.json.encode(task_defaults))
    fields = {name: job[name] for name in ORDER if name in job and job[name] != usual.get(name)}
    fields |= {name: _without(job[name], usual[name]) for name in PARTS if name in fields}
    fields["tags"] = [tag for tag in job["tags"] if not tag.startswith(TAG)]
    fields["schedule"] = exported_schedule(job["schedule"])
    fields["task"] = job["task"]
    named = fields | {"key": fields.get("key") or key_for(job)}
    told = {
        name for name in named if named[name] not in _EMPTY or (name in task_defaults and usual[name] not in _EMPTY)
    }
    return {name: named[name] for name in ORDER if name in told}


def key_for(job: Mapping[str, Any]) -> str:
    """Return the key of a job, or one for a job without a key."""
    return job.get("key") or f"{job['task']}-{job['job_id'][-8:]}"


def exported_schedule(schedule: Mapping[str, Any]) -> Any:
    """Return a schedule as people write it: as text if that says it all. None: now."""
    said = {name: value for name, value in schedule.items() if _ZONED.get(name) != value}
    if "calendar" in said:
        said.pop("cron", None)
        said["calendar"] = {name: value for name, value in said["calendar"].items() if value is not None}
    match said:
        case {"cron": text, **rest} if not rest:
            return text
        case {"every": text, **rest} if not rest:
            return f"every {text}"
        case {"at": text, **rest} if not rest:
            return text
    return said or None


def _without(value: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    return {name: one for name, one in value.items() if one != usual[name]}


@lru_cache(maxsize=1_000)
def _usual(task: str, defaults: bytes) -> dict[str, Any]:
    """Return the fields of a job that says nothing but its task, as the API shows them."""
    spec, _ = define({"task": task}, msgspec.json.decode(defaults), Instant(0))
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(show_definition(spec)))
    return found
