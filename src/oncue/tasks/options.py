"""The options of tasks and of single calls, and the job fields that they stand for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import msgspec

from oncue.clock import SystemClock
from oncue.domain.definition import DEFAULTED, define
from oncue.domain.errors import Invalid, Problem, tried
from oncue.domain.instants import Instant, of_timedelta, show_duration
from oncue.domain.meanings import did_you_mean
from oncue.shapes.schedules import Length, Schedule, When

if TYPE_CHECKING:
    from oncue.client import AsyncClient, Client

_RATE = re.compile(r"(\d{1,9})\s*/\s*(\S+)", re.ASCII)


class JobOptions(TypedDict, total=False):
    """The policies of a job. docs/api.md describes each field."""

    queue: str
    priority: Literal["high", "normal", "low"]
    tags: Sequence[str]
    timeout: Length
    max_retries: int
    retry: Mapping[str, Any]
    overlap: Literal["queue", "skip", "allow", "replace"]
    catch_up: Literal["last", "skip", "all"]
    catch_up_window: Length
    start_within: Length | None
    on_lost: Literal["rerun", "dead"]
    on_left_behind: Literal["hold", "release"]
    group: str | None
    concurrency: int | Mapping[str, Any] | None
    """4: at most four runs of the task at a time; or `{"key", "limit"}`"""
    rate: str | Mapping[str, Any] | None
    """"10/1m": at most ten starts in any minute; or `{"limit", "per", "key"}`"""
    resources: Mapping[str, Any]
    labels: Sequence[str]
    preemptible: bool


class TaskOptions(JobOptions, total=False):
    """What `@tasks.task(…)` takes: defaults for the task's jobs, and how the task runs."""

    isolation: Literal["process"]
    """each run in a process of its own, which can be killed without harm to other runs"""
    roles: Iterable[str]
    """the roles that may create jobs of this task; by default admin and member"""
    no_retry_on: Iterable[type[BaseException]]
    """exceptions after which the run is not retried"""
    schedule: str | Schedule | Mapping[str, Any]
    """declares a job that runs the task: `cron(…)`, `every(…)`, `at(…)` or text; its key is the task's name"""
    payload: Mapping[str, Any]
    """the arguments of this job"""


class CallOptions(JobOptions, total=False):
    """What `using` takes: fields of the jobs of these calls, and how the calls are made."""

    name: str | None
    key: str | None
    notify: Sequence[Mapping[str, Any]] | None
    schedule: When | Schedule | Mapping[str, Any]
    """when it runs, once: "in 10m", `at(…)`"""
    idempotency_key: str
    """repeating a call with the same key creates nothing"""
    wait_timeout: Length | float
    """how long `run` waits"""
    client: Client | AsyncClient


NOT_SENT = frozenset({"idempotency_key", "wait_timeout", "client"})
OF_THE_TASK = frozenset(TaskOptions.__annotations__) - frozenset(JobOptions.__annotations__)


def job_fields(task: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as the fields of a job, in JSON values. Invalid: a value that is none."""
    found = dict(options)
    match found.get("concurrency"):
        case bool():
            pass  # refused like any other value of a wrong type
        case int(limit):
            found["concurrency"] = {"key": task, "limit": limit}
    if isinstance(rate := found.get("rate"), str):
        found["rate"] = _rate(rate)
    return {name: _plain(name, value) for name, value in found.items()}


def defaults(task: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Check the defaults of a task where it is declared, not when its first job is refused. Returns them."""
    problems = [_not_an_option(name, (*DEFAULTED, *OF_THE_TASK), "tasks") for name in options if name not in DEFAULTED]
    found: dict[str, Any] = {}
    for name in (one for one in options if one in DEFAULTED):
        found |= tried(problems, job_fields, task, {name: options[name]}) or {}
    tried(problems, define, {"task": task, **found}, {}, Instant(0))
    if problems:
        raise Invalid(*problems)
    return found


def call_options(task: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Check the options of calls, and return them with the fields of jobs in JSON values. Invalid: what is wrong."""
    unknown = [name for name in options if name not in CallOptions.__annotations__]
    if unknown:
        raise Invalid(*(_not_an_option(name, CallOptions.__annotations__, "calls") for name in unknown))
    fields = job_fields(task, {name: value for name, value in options.items() if name not in NOT_SENT})
    spec, _ = define({"task": task, **fields}, {}, SystemClock().now())
    if spec.schedule.recurring:
        raise Invalid.of("schedule", "recurring", "runs more than once; call `schedule(…)` of the task instead")
    return {**options, **fields}


def _not_an_option(name: str, known: Iterable[str], of: str) -> Problem:
    return Problem(
        name, "unknown_field", f"is not an option of {of}; {did_you_mean(name, known, in_python=of == 'tasks')}"
    )


def _rate(text: str) -> dict[str, Any]:
    found = _RATE.fullmatch(text)
    if found is None:
        raise Invalid.of("rate", "bad_rate", f"{text[:40]!r} is not a rate; write starts and time like '10/1m'")
    return {"limit": int(found[1]), "per": found[2]}


def _plain(name: str, value: Any) -> Any:
    try:
        return _with_durations(msgspec.to_builtins(value, builtin_types=(timedelta,)))
    except (TypeError, ValueError) as wrong:
        raise Invalid.of(name, "wrong_type", f"cannot be written as JSON: {wrong}") from None


def _with_durations(value: Any) -> Any:
    match value:
        case timedelta():
            return show_duration(of_timedelta(value))
        case dict():
            return {name: _with_durations(one) for name, one in value.items()}
        case list() | tuple():
            return [_with_durations(one) for one in value]
        case _:
            return value
