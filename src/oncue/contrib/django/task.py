"""A Django task with the options that oncue's tasks have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, Self

from django.utils import timezone

from oncue.contrib.django.framework import Task
from oncue.shapes.schedules import Length, at

HIGH, LOW = 33, -33  # Django's priorities go from -100 to 100, and oncue has three levels


@dataclass(frozen=True, slots=True, kw_only=True)
class OncueTask(Task):
    """What `@task(…)` makes with this backend. Each option is one of oncue's, and None leaves oncue's default.

    Django 6.0 passes none of them on from the decorator; `using` takes them with every version.
    """

    timeout: Length | None = None
    max_retries: int | None = None
    retry: Mapping[str, Any] | None = None
    start_within: Length | None = None
    on_lost: Literal["rerun", "dead"] | None = None
    on_left_behind: Literal["hold", "release"] | None = None
    group: str | None = None
    concurrency: int | Mapping[str, Any] | None = None
    rate: str | Mapping[str, Any] | None = None
    tags: Sequence[str] | None = None
    labels: Sequence[str] | None = None
    resources: Mapping[str, Any] | None = None
    preemptible: bool | None = None
    isolation: Literal["process"] | None = None
    no_retry_on: Iterable[type[BaseException]] | None = None
    key: str | None = None
    idempotency_key: str | None = None

    def using(
        self,
        *,
        priority: int | None = None,
        queue_name: str | None = None,
        run_after: datetime | None = None,
        backend: str | None = None,
        **options: Any,
    ) -> Self:
        """Return the same task with other options: `send.using(queue_name="mail", timeout="30s")`."""
        found: Self = Task.using(
            self, priority=priority, queue_name=queue_name, run_after=run_after, backend=backend
        )  # not super(): a class with slots is another one than that of its methods
        return replace(found, **options) if options else found


_OF_THE_TASK = ("isolation", "no_retry_on")
_OF_A_CALL = ("key", "idempotency_key")
_OF_JOBS = tuple(name for name in OncueTask.__annotations__ if name not in _OF_THE_TASK and name not in _OF_A_CALL)


def declared_options(task: Task) -> dict[str, Any]:
    """Return the options of oncue's task: the defaults of its jobs, and how it runs."""
    return {"queue": task.queue_name, "priority": level(task.priority), **_given(task, _OF_JOBS + _OF_THE_TASK)}


def call_options(task: Task) -> dict[str, Any]:
    """Return the options of one call."""
    options = {"queue": task.queue_name, "priority": level(task.priority), **_given(task, _OF_JOBS + _OF_A_CALL)}
    if task.run_after is not None:
        naive = timezone.is_naive(task.run_after)
        options["schedule"] = at(timezone.make_aware(task.run_after) if naive else task.run_after)
    return options


def level(priority: int) -> str:
    return "high" if priority > HIGH else "low" if priority < LOW else "normal"


def _given(task: Task, names: Iterable[str]) -> dict[str, Any]:
    """Return the options that are set. A task of another backend, used with this one, has none."""
    found = {name: getattr(task, name, None) for name in names}
    return {name: value for name, value in found.items() if value is not None}
