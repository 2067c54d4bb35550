"""Translate the schedules of a Celery app into jobs. Celery is the user's: nothing here imports it."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from oncue.cli.imported import Entry, key_of
from oncue.domain.errors import Invalid

HEADER = (
    "Translated from the beat_schedule of a Celery app by `oncue import celery`. Look through it, then:",
    'oncue apply FILE --dry-run. Workers need tasks with these names: @tasks.task("shop.tasks.add").',
)
UNDERSTOOD = {"queue", "expires"}
FIELDS = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")


def load_app(source: str) -> Any:
    """Import `module:attribute`; without an attribute `app` or `celery`. Invalid: there is none."""
    name, _, attribute = source.partition(":")
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))
    try:
        module = importlib.import_module(name)
    except (Exception, SystemExit) as error:
        what = f"{name} cannot be imported: {type(error).__name__}: {error}"
        raise Invalid.of("APP", "import_failed", what) from error
    for one in [attribute] if attribute else ["app", "celery"]:
        if hasattr(getattr(module, one, None), "conf"):
            return getattr(module, one)
    raise Invalid.of("APP", "no_app", f"{name} has no Celery app {attribute or 'app'!r}; write it as shop.celery:app")


def read_celery(app: Any) -> Iterator[Entry]:
    """Read the entries of `beat_schedule`."""
    with suppress(Exception):
        app.loader.import_default_modules()  # else the signatures of tasks in other modules are unknown
    zone = str(app.conf.timezone or "UTC")
    for name, entry in (app.conf.beat_schedule or {}).items():
        yield _entry(app, str(name), entry, zone)


def _entry(app: Any, name: str, entry: Mapping[str, Any], zone: str) -> Entry:
    task, given = str(entry.get("task") or name), dict(entry.get("options") or {})
    source = f"{name}: {task}, {entry.get('schedule')!r}"
    try:
        schedule = _schedule(entry.get("schedule"), zone)
        payload = _payload(app, task, entry.get("args") or (), entry.get("kwargs") or {})
    except ValueError as wrong:
        return Entry(source, notes=(f"not translated: {wrong}",))
    job: dict[str, Any] = {"key": key_of(name), "name": name, "task": task, "schedule": schedule}
    if payload:
        job["payload"] = payload
    queue = _name_of(given.get("queue")) or _routed(app, task)
    if queue and queue != app.conf.task_default_queue:
        job["queue"] = queue
    if isinstance(given.get("expires"), int | float):
        job["start_within"] = f"{given['expires']:g}s"
    notes = [f"not translated: the option {one}={given[one]!r}" for one in given if one not in UNDERSTOOD]
    return Entry(source, job, tuple(notes))


def _schedule(schedule: Any, zone: str) -> dict[str, str]:
    kinds = {kind.__name__ for kind in type(schedule).__mro__}
    if "crontab" in kinds:
        return {"cron": _cron(schedule), "timezone": zone}
    every = getattr(schedule, "run_every", schedule)
    if isinstance(every, timedelta):
        every = every.total_seconds()
    if "solar" in kinds or isinstance(every, bool) or not isinstance(every, int | float):
        raise ValueError("oncue has cron, every and calendar schedules, and none that follows the sun or other events")
    return {"every": f"{every:g}s"}


def _cron(schedule: Any) -> str:
    """Return its five fields. Celery runs when both the day of the month and the weekday match, cron when one does."""
    fields = [str(getattr(schedule, f"_orig_{field}")).replace(" ", "") for field in FIELDS]
    if not fields[2].startswith("*") and not fields[4].startswith("*"):
        raise ValueError("Celery needs the day of the month and the weekday to match, oncue's cron one of the two")
    return " ".join(fields)


def _payload(app: Any, task: str, args: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments by name: a payload has no positions."""
    if not args:
        return dict(kwargs)
    function = getattr(app.tasks.get(task), "run", None)
    if function is None:
        raise ValueError(f"the names of the arguments {args!r} are unknown, because the task is not registered here")
    try:
        return dict(inspect.signature(function).bind(*args, **kwargs).arguments)
    except TypeError as wrong:
        raise ValueError(f"the arguments do not fit the task: {wrong}") from None


def _routed(app: Any, task: str) -> str:
    """Return the queue that `task_routes` names for a task, by Celery's own rules; empty: none."""
    try:
        return _name_of(app.amqp.router.route({}, task).get("queue"))
    except Exception:  # a router of the user's, or a queue that is not declared
        return ""


def _name_of(queue: Any) -> str:
    return str(getattr(queue, "name", queue) or "")
