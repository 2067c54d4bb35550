"""Translate the schedules of a Celery app into jobs. Celery is the user's: nothing here imports it."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

from oncue.cli.imported import Entry, key_of
from oncue.domain.errors import Invalid
from oncue.domain.plain_json import is_not_finite

FIELDS = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
OF_TEN = {
    **dict.fromkeys(range(4), "low"),
    **dict.fromkeys(range(4, 7), "normal"),
    **dict.fromkeys(range(7, 10), "high"),
}
ZERO_FIRST = ("redis", "rediss", "sentinel")  # brokers of which priority 0 is the highest
WEEKS = {"1-7": 1, "8-14": 2, "15-21": 3, "22-28": 4}  # the days on which a weekday comes for the nth time


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


def header(entries: Iterable[Entry]) -> tuple[str, ...]:
    """Return the first lines of the file, with the name of one of its tasks as the example."""
    names = [entry.job["task"] for entry in entries if entry.job is not None]
    example = f': @tasks.task("{names[0]}")' if names else ""
    return (
        "Translated from the beat_schedule of a Celery app by `oncue import celery`. Look through it, then:",
        f"oncue apply FILE --dry-run. Workers need tasks with these names{example}.",
    )


def read_celery(app: Any) -> Iterator[Entry]:
    """Read the entries of `beat_schedule`. Invalid: the app has no such configuration."""
    with suppress(Exception):
        app.loader.import_default_modules()  # else the signatures of tasks in other modules are unknown
    try:
        zone, entries = str(app.conf.timezone or "UTC"), app.conf.beat_schedule or {}
    except Exception as error:  # Celery reads its configuration when it is first asked for
        what = f"its configuration cannot be read: {type(error).__name__}: {error}"
        raise Invalid.of("APP", "bad_config", what) from error
    if not isinstance(entries, Mapping):
        raise Invalid.of("APP", "bad_config", f"beat_schedule must be a dictionary, not {type(entries).__name__}")
    for name, entry in entries.items():
        if isinstance(entry, Mapping):
            yield _entry(app, str(name), entry, zone)
        else:
            yield Entry(f"{name}: {entry!r}", notes=("not translated: an entry must be a dictionary",))


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
    given.pop("queue", None)
    if (priority := _priority(app, given.get("priority"))) is not None:
        job["priority"] = priority
        given.pop("priority")
    if isinstance(given.get("expires"), int | float | timedelta):
        job["start_within"] = f"{_seconds(given.pop('expires')):g}s"
    notes = [f"not translated: the option {one}={value!r}" for one, value in given.items() if value is not None]
    return Entry(source, job, tuple(notes))


def _priority(app: Any, given: Any) -> str | None:
    """Translate one of Celery's ten priorities. None: it is none of them."""
    if type(given) is not int or given not in OF_TEN:
        return None
    broker = str(getattr(app.conf, "broker_url", None) or "").partition(":")[0]
    return OF_TEN[9 - given if broker in ZERO_FIRST else given]


def _schedule(schedule: Any, zone: str) -> dict[str, str]:
    kinds = {kind.__name__ for kind in type(schedule).__mro__}
    if "crontab" in kinds:
        return {"cron": _cron(schedule, zone), "timezone": zone}
    every = _seconds(getattr(schedule, "run_every", schedule))
    if "solar" in kinds or isinstance(every, bool) or not isinstance(every, int | float):
        raise ValueError("oncue has cron, every and calendar schedules, and none that follows the sun or other events")
    return {"every": f"{every:g}s"}


def _seconds(length: Any) -> Any:
    return length.total_seconds() if isinstance(length, timedelta) else length


def _cron(schedule: Any, zone: str) -> str:
    """Return its five fields. Celery runs when both the day of the month and the weekday match, cron when one does."""
    minute, hour, day, month, weekday = (_field(getattr(schedule, f"_orig_{field}")) for field in FIELDS)
    if not day.startswith("*") and not weekday.startswith("*"):
        if (nth := WEEKS.get(day)) is None:
            days = ", ".join(map(str, sorted(schedule.day_of_month)))
            raise ValueError(
                "Celery needs the day of the month and the weekday to match, oncue's cron one of the two. Write the "
                f'cron "{minute} {hour} * {month} {weekday}", and begin the task with: '
                f'if ctx.scheduled_for.astimezone(ZoneInfo("{zone}")).day not in ({days},): return'
            )
        day, weekday = "*", ",".join(f"{one}#{nth}" for one in sorted(schedule.day_of_week))
    return f"{minute} {hour} {day} {month} {weekday}"


def _field(value: Any) -> str:
    """Return a field as text. Celery also takes numbers, and sets or lists of them."""
    listed = value if isinstance(value, list | tuple | set | frozenset) else [value]
    return ",".join(str(one).replace(" ", "") for one in sorted(listed, key=str))


def _payload(app: Any, task: str, args: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments by name: a payload has no positions."""
    given = dict(kwargs) if not args else _by_name(app, task, args, kwargs)
    try:
        plain: dict[str, Any] = msgspec.to_builtins(given, str_keys=True)
    except (TypeError, ValueError, RecursionError) as wrong:
        raise ValueError(f"the arguments are not JSON: {wrong}") from None
    if is_not_finite(plain):
        raise ValueError("the arguments are not JSON: a number is not finite")
    return plain


def _by_name(app: Any, task: str, args: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
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
