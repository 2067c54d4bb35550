"""The fields of a job as they are sent, for whoever has a type checker or an editor that completes names.

Lengths of time may be text ("30s") or timedeltas, instants text (RFC 3339) or aware datetimes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypedDict

Length = str | timedelta
When = str | datetime


class JobFields(TypedDict, total=False):
    """Every field of a job that can be set. Only `task` is needed to make one."""

    task: str
    name: str | None
    schedule: When | Mapping[str, Any]
    payload: Mapping[str, Any] | None
    queue: str
    priority: str
    tags: Sequence[str]
    max_retries: int
    retry: Mapping[str, Any]
    timeout: Length
    overlap: str
    catch_up: str
    catch_up_window: Length
    start_within: Length | None
    on_lost: str
    key: str | None
    group: str | None
    concurrency: Mapping[str, Any] | None
    rate: Mapping[str, Any] | None
    resources: Mapping[str, Any]
    labels: Sequence[str]
    preemptible: bool
    notify: Sequence[Mapping[str, Any]]
