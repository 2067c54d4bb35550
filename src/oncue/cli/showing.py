"""Print jobs, runs and explanations as tables."""

from __future__ import annotations

from typing import Any

from oncue.cli.printing import print_fields, print_table, say, text, time
from oncue.shapes.jobs import Explanation, Job, JobFields
from oncue.shapes.runs import Attempt, Run

JOB_COLUMNS = ("job_id", "status", "task", "next run", "last run", "name")
RUN_COLUMNS = ("run_id", "status", "task", "scheduled for", "attempt", "error")

_FIRST = ("name", "task", "schedule", "payload")  # fields of a job that stand above how it goes
ONLY_IN_JSON = ("retry", "catch_up_window", "resources", "preemptible")
_REST = tuple(name for name in JobFields.__annotations__ if name not in (*_FIRST, *ONLY_IN_JSON))


def job_row(job: Job) -> tuple[str, ...]:
    last = "" if job.last_run is None else job.last_run.status
    return job.job_id, job.status, job.task, time(job.next_run_at), last, text(job.name)


def run_row(run: Run) -> tuple[str, ...]:
    error = text(run.error_message) if run.status != "succeeded" else ""
    return run.run_id, run.status, text(run.task), time(run.scheduled_for), str(run.attempt_number), error


def show_job(job: Job) -> None:
    last = job.last_run
    print_fields(
        f"job {job.job_id}",
        [
            ("name", text(job.name)),
            ("status", job.status),
            ("task", text(job.task)),
            ("schedule", schedule(job.schedule)),
            ("payload", text(job.payload)),
            ("next run", time(job.next_run_at)),
            (
                "last run",
                "" if last is None else f"{last.status} {time(last.end_time or last.start_time)} {last.run_id}",
            ),
            ("last error", "" if last is None else text(last.error_message)),
            *((name.replace("_", " "), text(getattr(job, name))) for name in _REST),
            ("user", text(job.user_id)),
            ("version", text(job.version)),
            ("created", time(job.created_at)),
            ("changed", time(job.updated_at)),
        ],
    )


def schedule(found: dict[str, Any]) -> str:
    """Format as `cron 0 9 * * 1-5, timezone Europe/Berlin`; default values are left out."""
    usual = {"timezone": "UTC", "dst_gap": "shift", "dst_fold": "first"}
    said = [f"{name} {text(value)}" for name, value in found.items() if usual.get(name) != value]
    return ", ".join(said) or "now"


def show_run(run: Run) -> None:
    print_fields(
        f"run {run.run_id}",
        [
            ("status", run.status),
            ("task", text(run.task)),
            ("job", run.job_id),
            ("scheduled for", time(run.scheduled_for)),
            ("started", time(run.start_time)),
            ("ended", time(run.end_time)),
            ("late by", "" if run.lag_ms is None else f"{run.lag_ms} ms"),
            ("progress", "" if run.progress is None else f"{text(run.progress.done)} of {text(run.progress.total)}"),
            ("worker", text(run.executor_id)),
            ("payload", text(getattr(run, "payload", None))),
            ("result", text(run.result)),
            ("in storage", ", ".join(f"{name}: {size} bytes" for name, size in run.large.items())),
            ("degraded", "the result could not be kept" if "result" in run.degraded else ""),
            ("error type", text(run.error_type)),
            ("error", text(run.error_message)),
        ],
    )
    if run.attempts:
        columns = ("number", "outcome", "started", "ended", "worker", "error")
        print_table("attempts", columns, [_attempt(one) for one in run.attempts])


def _attempt(one: Attempt) -> tuple[str, ...]:
    times = time(one.start_time), time(one.end_time)
    return str(one.number), text(one.outcome), *times, text(one.executor_id), text(one.error_message)


def show_explanation(found: Explanation) -> None:
    print_fields(
        f"{found.reason}: {found.detail}",
        [("state", found.state), ("blocked by", text(found.holder)), ("position", text(found.position))],
    )


def show_run_id(run_id: str) -> None:
    say(f"run {run_id}")
