"""Compute the steps that turn the stored jobs of a set into those of a file. Pure: jobs in, steps out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from oncue.domain.definition import Limits, define
from oncue.domain.errors import Invalid, Problem
from oncue.domain.instants import Instant
from oncue.shapes.jobs import JobFields

LIVE = ("active", "paused")
TAG = "applied:"  # followed by the set's name: the tag of every applied job
FIELDS = (*(name for name in JobFields.__annotations__ if name != "payload"), "payload")
_IN_ANY_ORDER = ("tags", "labels")

AS_THE_SERVER_HAS_THEM = Limits(payload=1 << 30)  # its settings decide


class Action(StrEnum):
    CREATE = "create"
    CHANGE = "change"
    TAKE_OVER = "take over"
    UNCHANGED = "unchanged"
    PRUNE = "prune"


class Change(msgspec.Struct, frozen=True):
    """One field's stored value and the file's value; null: the default."""

    old: Any
    new: Any


class Step(msgspec.Struct, frozen=True):
    action: Action
    key: str
    fields: dict[str, Any] = {}
    """The request body for this key."""
    job_id: str | None = None
    changes: dict[str, Change] = {}
    owners: tuple[str, ...] = ()
    """The sets that an adopted job belongs to; empty: it was created by hand."""


def steps(
    wanted: Sequence[Mapping[str, Any]],
    there: Iterable[Mapping[str, Any]],
    tag: str,
    task_defaults: Mapping[str, Mapping[str, Any]],
    now: Instant,
    *,
    prune: bool,
) -> tuple[Step, ...]:
    """Compare the file's jobs with those that are stored.

    `there` are the jobs with this tag or with a key of the file, as the API shows them. Invalid: lists every wrong
    field of the file.
    """
    known = _by_key(there, tag)
    problems: list[Problem] = []
    planned: list[Step] = []
    for job in wanted:
        asked = {**job, "tags": [*(job.get("tags") or ()), tag]}
        try:
            planned.append(_step(asked, known.get(job["key"]), tag, task_defaults, now))
        except Invalid as wrong:
            problems += wrong.under(job["key"]).problems
    if problems:
        raise Invalid(*problems)
    if prune:
        keys = {job["key"] for job in wanted}
        planned += [
            Step(Action.PRUNE, key, job_id=job["job_id"])
            for key, job in known.items()
            if key not in keys and job["status"] in LIVE
        ]
    return tuple(planned)


def _by_key(there: Iterable[Mapping[str, Any]], tag: str) -> dict[str, Mapping[str, Any]]:
    """Pick one job for each key: an active or paused one, else a finished one of this set. A cancelled job never
    counts: a new one takes over its key."""
    keyed = [job for job in there if job.get("key") is not None]
    finished = [job for job in keyed if job["status"] not in (*LIVE, "cancelled") and tag in job["tags"]]
    return {job["key"]: job for job in (*finished, *(job for job in keyed if job["status"] in LIVE))}


def _step(
    asked: dict[str, Any],
    job: Mapping[str, Any] | None,
    tag: str,
    task_defaults: Mapping[str, Mapping[str, Any]],
    now: Instant,
) -> Step:
    key = asked["key"]
    new = _definition(asked, task_defaults, now)
    fields = {name: value for name, value in asked.items() if name != "key"}
    if job is None:
        return Step(Action.CREATE, key, fields)
    old = _definition(_read_back(job), {}, now)
    changes = {name: Change(job.get(name), asked.get(name)) for name in FIELDS if _differ(name, old[name], new[name])}
    if tag not in job["tags"]:
        owners = tuple(one.removeprefix(TAG) for one in job["tags"] if one.startswith(TAG))
        return Step(Action.TAKE_OVER, key, fields, job["job_id"], changes, owners)
    return Step(Action.CHANGE if changes else Action.UNCHANGED, key, fields, job["job_id"], changes)


def _definition(
    fields: Mapping[str, Any], task_defaults: Mapping[str, Mapping[str, Any]], now: Instant
) -> dict[str, Any]:
    """Return every field with its effective value, read with the server's own code."""
    spec, payload = define(fields, task_defaults.get(fields.get("task", ""), {}), now, AS_THE_SERVER_HAS_THEM)
    return {**msgspec.structs.asdict(spec), "payload": None if payload is None else msgspec.json.decode(payload)}


def _read_back(job: Mapping[str, Any]) -> dict[str, Any]:
    """Turn a job from an answer into a request. Answers show a calendar with its cron expression; requests omit it."""
    fields = {name: job[name] for name in FIELDS if job.get(name) is not None}
    schedule = fields.get("schedule", {})
    if "calendar" in schedule:
        fields["schedule"] = {name: value for name, value in schedule.items() if name != "cron"}
    return fields


def _differ(name: str, old: Any, new: Any) -> bool:
    return sorted(old) != sorted(new) if name in _IN_ANY_ORDER else bool(old != new)
