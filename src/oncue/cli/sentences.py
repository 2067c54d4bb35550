"""What a command did, in one line: `Created job 84359e35 "greeting". Runs at 09:00 every day (UTC), next in 16h.`"""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec

from oncue.cli import times
from oncue.cli.output import Output
from oncue.cli.printing import text
from oncue.cli.showing import duration, schedule_in_brief
from oncue.cli.tables import short_id
from oncue.shapes.jobs import Job
from oncue.shapes.runs import Run

SHOWN_RUNS = 5
NOW = "Runs now."
UNSERVED = ("no_worker", "no_labels", "too_big")  # codes of warnings


def id_shown(full: str | UUID, output: Output) -> str:
    """Return the short id for people, and the full one for programs."""
    return short_id(full) if output.for_people else str(full)


def created(job: Job, output: Output) -> str:
    """Say that a job exists now, when it runs, and if no live worker can run it, why."""
    unserved = [text(one.message, longest=None) for one in job.warnings if one.code in UNSERVED]
    runs = _when(job, output)
    if unserved and runs == NOW:
        runs = "It waits for a worker."
    return " ".join((f"Created {job_shown(job, output)}.", runs, *unserved))


def changed(verb: str, job: Job, output: Output) -> str:
    """Say `Paused job …`; if the job goes on, with its next run."""
    follows = f" Next run {_next(job, output)}." if job.status == "active" and job.next_run_at is not None else ""
    return f"{verb} {job_shown(job, output)}.{follows}"


def cancelled(job: Job, before: str | None, output: Output) -> str:
    """Say that a job is cancelled; if it had ended `before`, how."""
    had = {"finished": "had already finished", "cancelled": "was already cancelled"}.get(before or "")
    if had is None:
        return changed("Cancelled", job, output)
    return f"Job{job_shown(job, output).removeprefix('job')} {had}."


def job_shown(job: Job, output: Output) -> str:
    called = text(job.name or job.key)
    return f"job {id_shown(job.job_id, output)} " + (f'"{called}"' if called else f"of task {text(job.task)}")


def ran_again(old: UUID, new: str | UUID, output: Output) -> str:
    """Say that a run runs again, and as which."""
    return f"Run {id_shown(old, output)} runs again as run {id_shown(new, output)}."


def ended(run: Run, output: Output) -> str:
    """Say how a run ended, and what to do if it failed."""
    run_id, length = id_shown(run.run_id, output), duration(run)
    took = "" if length is None else f" in {times.took(length)}"
    if run.status == "succeeded":
        return f"Run {run_id} succeeded{took}."
    if run.status != "dead":
        return f"Run {run_id} is {run.status}."
    why = ": ".join(filter(None, (text(run.error_type), text(run.error_message, longest=None))))
    return f"Run {run_id} is dead: {why}\nRun it again with `oncue dead requeue {run_id}`."


def runs_shown(run_ids: tuple[UUID, ...], output: Output) -> str:
    """List up to 5 of these runs."""
    some = ", ".join(id_shown(one, output) for one in run_ids[:SHOWN_RUNS])
    return some if len(run_ids) <= SHOWN_RUNS else f"{some} and {len(run_ids) - SHOWN_RUNS} more"


def _when(job: Job, output: Output) -> str:
    at = job.schedule.get("at")
    if at is not None and job.next_run_at is not None:
        return f"Runs once, {_next(job, output)}."
    if not {"cron", "every", "calendar"} & set(job.schedule):
        return NOW
    follows = "" if job.next_run_at is None else f", next {_next(job, output)}"
    return f"Runs {_in_words(job.schedule, output)}{follows}."


def _next(job: Job, output: Output) -> str:
    assert job.next_run_at is not None, "asked of jobs with a next run"
    if not output.for_people:
        return f"at {times.plain(job.next_run_at)}"
    near = times.near(job.next_run_at, output.now(), utc=output.utc)
    return near if near[:2] in ("in", "no") or near.endswith("ago") else f"at {near}"


def _in_words(schedule: dict[str, Any], output: Output) -> str:
    """Describe a schedule; one that this version does not know, as it is."""
    from oncue.domain.errors import Invalid
    from oncue.domain.schedule import Asked, describe_schedule, parse_schedule

    try:
        return describe_schedule(parse_schedule(msgspec.convert(schedule, Asked), output.now()))
    except (Invalid, msgspec.ValidationError):
        return schedule_in_brief(schedule)
