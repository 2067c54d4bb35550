"""Declared jobs: what has to happen to the stored job with a key so that it is as a set declares it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

from oncue.domain.job import Job, JobStatus, Spec, definition_of
from oncue.domain.time_input import is_relative

TAG = "applied:"  # followed by the set's name: the tag of every declared job
ALONE = "key:"  # before a key: the set of code without a name that has only the job with this key
LARGEST_STAMP = 2**53 - 1  # what every reader of JSON can represent
LIVE = (JobStatus.ACTIVE, JobStatus.PAUSED)
_IN_ANY_ORDER = ("tags", "labels")
_INSTANTS = ("at", "start_at", "end_at")
_ANY = Spec(task="any")


class Action(StrEnum):
    CREATE = "create"
    CHANGE = "change"
    ADOPT = "adopt"
    UNCHANGED = "unchanged"
    PRUNE = "prune"


class FieldChange(msgspec.Struct, frozen=True):
    """One field's stored value and the declared value, as the API shows them."""

    old: Any
    new: Any


def action_of(job: Job | None, remembered: bytes | None, spec: Spec, payload: bytes | None, tag: str) -> Action:
    """Return what to do for a declared job. `job` has its key or had it last; `remembered` is the definition of one
    that is forgotten. Whether a live job of this set changes is left to its differences: CHANGE.

    A finished one-shot never runs again unless another is declared. A cancelled job is created again.
    """
    if job is None:
        known = remembered is not None and remembered == definition_of(spec, payload)
        return Action.UNCHANGED if known else Action.CREATE
    if job.status in LIVE:
        return Action.CHANGE if tag in job.spec.tags else Action.ADOPT
    same = definition_of(job.spec, job.payload) == definition_of(spec, payload)
    return Action.UNCHANGED if same and job.status is JobStatus.FINISHED else Action.CREATE


def owners_of(job: Job) -> tuple[str, ...]:
    """Return the sets that a job belongs to; none: it was not declared."""
    return tuple(tag.removeprefix(TAG) for tag in job.spec.tags if tag.startswith(TAG))


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, FieldChange]:
    """Return the fields that differ. Both are definitions as the API shows them, without payloads."""
    return {name: FieldChange(old[name], new[name]) for name in new if _differ(name, old[name], new[name])}


def _differ(name: str, old: Any, new: Any) -> bool:
    return sorted(old) != sorted(new) if name in _IN_ANY_ORDER else bool(old != new)


def same_payload(one: bytes | None, other: bytes | None) -> bool:
    return definition_of(_ANY, one) == definition_of(_ANY, other)


def relative_time(schedule: Any) -> str | None:
    """Return the field of a declared schedule that would mean another instant with each declaration."""
    if isinstance(schedule, str):
        return "" if schedule != "now" and is_relative(schedule) else None
    if not isinstance(schedule, dict):
        return None
    texts = {name: schedule[name] for name in _INSTANTS if isinstance(schedule.get(name), str)}
    return next((f".{name}" for name, text in texts.items() if is_relative(text)), None)
