"""The tables of jobs and runs, and how one of them is shown. tables.py explains tables."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from oncue.cli import times
from oncue.cli.output import Output, say_sentence
from oncue.cli.printing import print_fields, say, text
from oncue.cli.tables import Column, Kind, Table, lines_of, print_lines, short_id
from oncue.shapes.jobs import Explanation, Job, JobFields, Occurrence
from oncue.shapes.runs import Attempt, DeadLetter, Run

_FIRST = ("name", "task", "schedule", "payload")  # fields of a job that stand above how it goes
ONCE = "once"
ONLY_IN_JSON = ("retry", "catch_up_window", "resources", "preemptible")
_REST = tuple(name for name in JobFields.__annotations__ if name not in (*_FIRST, *ONLY_IN_JSON))


def status_of(job: Job) -> str:
    """Return how the job's run ended, if it ran once: a dead run is no success because the job is over."""
    once = job.status == "finished" and schedule_in_brief(job.schedule) == ONCE
    return job.last_run.status if once and job.last_run is not None else job.status


def _last_at(job: Job) -> datetime | None:
    last = job.last_run
    return None if last is None else last.end_time or last.start_time or last.scheduled_for


def duration(run: Run | Attempt) -> timedelta | None:
    if run.start_time is None or run.end_time is None:
        return None
    return run.end_time - run.start_time


def job_of(run: Run) -> str:
    """Return what its job is called: name, else key, else task."""
    return run.job_name or run.job_key or run.task or short_id(run.job_id)


def trigger_of(run: Run) -> str | None:
    """Return what created it. The run of a job that runs once has the job's id: no schedule is at work there."""
    return "enqueued" if run.trigger == "schedule" and run.run_id == run.job_id else run.trigger


def late_by(run: Run) -> str:
    """Format how late the first attempt started, and how long the last one waited, if that is another."""
    if run.lag_ms is None:
        return ""
    late = times.took(timedelta(milliseconds=run.lag_ms))
    ended = [one.end_time for one in run.attempts if one.number < run.attempt_number and one.end_time is not None]
    if not ended or run.start_time is None:
        return late
    return f"{late} at attempt 1; attempt {run.attempt_number} waited {times.took(run.start_time - ended[-1])}"


def worker_of(run: Run) -> str | None:
    return run.executor_name or (None if run.executor_id is None else short_id(run.executor_id))


def progress_of(run: Run) -> str:
    return "" if run.progress is None else f"{text(run.progress.done)} of {text(run.progress.total)}"


def _error(run: Run) -> str | None:
    return None if run.status == "succeeded" else run.error_message


JOBS: Table[Job] = Table(
    "jobs",
    lambda job: job.job_id,
    (
        Column("id", 8, lambda job: job.job_id, kind=Kind.ID),
        Column("name", 20, lambda job: job.name or job.key or job.task, pipes=lambda job: job.name),
        Column("status", 9, status_of, kind=Kind.STATUS, pipes=lambda job: job.status),
        Column("schedule", 16, lambda job: schedule_in_brief(job.schedule), pipes=lambda job: schedule(job.schedule)),
        Column("next", 9, lambda job: job.next_run_at),
        Column("last", 8, lambda job: job.last_run and job.last_run.status, kind=Kind.STATUS),
        Column("ran", 8, _last_at, at=120),
        Column("task", 20, lambda job: job.task, at=120),
        Column("queue", 12, lambda job: job.queue, at=120),
        Column("key", 20, lambda job: job.key, at=200),
        Column("tags", 20, lambda job: ",".join(job.tags), at=200),
        Column("owner", 12, lambda job: job.user_id, at=200),
    ),
)

RUNS: Table[Run] = Table(
    "runs",
    lambda run: run.run_id,
    (
        Column("id", 8, lambda run: run.run_id, kind=Kind.ID),
        Column("job", 18, job_of, pipes=lambda run: run.job_id),
        Column("status", 10, lambda run: run.status, kind=Kind.STATUS),
        Column("started", 8, lambda run: run.start_time),
        Column("took", 7, duration),
        Column("try", 3, lambda run: run.attempt_number),
        Column("worker", 12, worker_of, pipes=lambda run: run.executor_id),
        Column("task", 20, lambda run: run.task, at=120),
        Column("error", 24, _error, at=120),
        Column("queue", 12, lambda run: run.queue, at=200),
        Column("trigger", 9, trigger_of, pipes=lambda run: run.trigger, at=200),
        Column("scheduled", 9, lambda run: run.scheduled_for, at=200),
        Column("late", 7, lambda run: None if run.lag_ms is None else timedelta(milliseconds=run.lag_ms), at=200),
    ),
)

DEAD: Table[DeadLetter] = Table(
    "dead_letters",
    lambda run: run.run_id,
    (
        Column("id", 8, lambda run: run.run_id, kind=Kind.ID),
        Column("job", 18, job_of, pipes=lambda run: run.job_id),
        Column("ended", 8, lambda run: run.end_time),
        Column("tries", 5, lambda run: run.attempt_number),
        Column("error", 33, lambda run: run.error_message),
        Column("task", 20, lambda run: run.task, at=120),
        Column("type", 20, lambda run: run.error_type, at=120),
        Column("queue", 12, lambda run: run.queue, at=200),
        Column("payload", 40, lambda run: run.payload, at=200),
    ),
)

OCCURRENCES: Table[Occurrence] = Table(
    "occurrences",
    lambda one: one.run_id,
    (
        Column("scheduled", 12, lambda one: one.scheduled_for),
        Column("outcome", 9, lambda one: one.outcome, kind=Kind.STATUS),
        Column("reason", 20, lambda one: one.reason),
        Column("late", 7, lambda one: None if one.lag_ms is None else timedelta(milliseconds=one.lag_ms)),
        Column("until", 12, lambda one: one.until),
        Column("count", 6, lambda one: one.count),
        Column("run", 8, lambda one: one.run_id, kind=Kind.ID),
    ),
)

ATTEMPTS: Table[Attempt] = Table(
    "attempts",
    lambda one: str(one.number),
    (
        Column("number", 6, lambda one: one.number),
        Column("outcome", 9, lambda one: one.outcome, kind=Kind.STATUS),
        Column("started", 8, lambda one: one.start_time),
        Column("took", 7, duration),
        Column("worker", 8, lambda one: one.executor_id, kind=Kind.ID),
        Column("error", 30, lambda one: one.error_message),
    ),
)


def time(at: datetime | None, output: Output) -> str:
    """Format for one object: with the time zone for people, RFC 3339 in pipes."""
    if at is None:
        return ""
    return times.exact(at, utc=output.utc) if output.for_people else times.plain(at)


def show_job(job: Job, output: Output) -> None:
    last = job.last_run
    print_fields(
        f"job {job.job_id}",
        [
            ("name", text(job.name)),
            ("status", status_of(job) if output.for_people else job.status),
            ("task", text(job.task)),
            ("schedule", schedule(job.schedule)),
            ("payload", text(job.payload)),
            ("next run", time(job.next_run_at, output)),
            (
                "last run",
                "" if last is None else f"{last.status} {time(last.end_time or last.start_time, output)} {last.run_id}",
            ),
            ("last error", "" if last is None else text(last.error_message)),
            *((name.replace("_", " "), _field(getattr(job, name))) for name in _REST),
            ("user", text(job.user_id)),
            ("version", text(job.version)),
            ("created", time(job.created_at, output)),
            ("changed", time(job.updated_at, output)),
            ("warnings", ", ".join(f"{text(one.path)} ({text(one.code)})" for one in job.warnings)),
        ],
    )


def _field(value: Any) -> str:
    """Format a field; names in a row, like tags, without JSON's brackets."""
    names = isinstance(value, tuple) and all(isinstance(one, str) for one in value)
    return text(", ".join(value)) if names else text(value)


def schedule(found: dict[str, Any]) -> str:
    """Format as `cron 0 9 * * 1-5, timezone Europe/Berlin`; default values are left out."""
    usual = {"timezone": "UTC", "dst_gap": "shift", "dst_fold": "first"}
    said = [f"{name} {text(value)}" for name, value in found.items() if usual.get(name) != value]
    return ", ".join(said if {"at", "cron", "every", "calendar"} & set(found) else ["now", *said])


def schedule_in_brief(found: dict[str, Any]) -> str:
    """Format for a list: `0 9 * * 1-5`, `every 10m`, `once`."""
    if "cron" in found:
        return str(found["cron"])
    return f"every {found['every']}" if "every" in found else "calendar" if "calendar" in found else ONCE


def show_run(run: Run, output: Output) -> None:
    length = duration(run)
    print_fields(
        f"run {run.run_id}",
        [
            ("status", run.status),
            ("task", text(run.task)),
            ("job", " ".join(filter(None, (text(run.job_name or run.job_key), text(run.job_id))))),
            ("queue", text(run.queue)),
            ("trigger", text(trigger_of(run) if output.for_people else run.trigger)),
            ("runs again", text(run.parent)),
            ("scheduled for", time(run.scheduled_for, output)),
            ("due", "" if run.due_time == run.scheduled_for else time(run.due_time, output)),
            ("started", time(run.start_time, output)),
            ("ended", time(run.end_time, output)),
            ("took", "" if length is None else times.took(length)),
            ("late by", late_by(run)),
            ("progress", progress_of(run)),
            ("worker", " ".join(filter(None, (text(run.executor_name), text(run.executor_id))))),
            ("payload", text(getattr(run, "payload", None))),
            ("result", text(run.result)),
            ("in storage", ", ".join(f"{name}: {size} bytes" for name, size in run.large.items())),
            ("degraded", "the result could not be kept" if "result" in run.degraded else ""),
            ("error type", text(run.error_type)),
            ("error", run.error_message or ""),
        ],
    )
    if run.attempts:
        say("\nattempts")
        print_lines(lines_of(ATTEMPTS, run.attempts, output))
    failed = next((one for one in reversed(run.attempts) if one.traceback), None)
    if failed is not None:
        say(f"\ntraceback of attempt {failed.number}\n{(failed.traceback or '').rstrip()}")


def explained(found: Explanation) -> str:
    return f"{found.reason}: {found.detail}"


def show_explanation(found: Explanation, output: Output) -> None:
    say_sentence(explained(found), output)
    fields = [("state", found.state), ("blocked by", text(found.holder)), ("position", text(found.position))]
    print_fields("", fields)
