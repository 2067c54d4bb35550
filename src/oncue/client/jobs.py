"""Calls on jobs."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Unpack

from oncue.client.call import Call, Page, Parse, change, field, get, make, model, nothing, page_of, path
from oncue.shapes.jobs import Explanation, Job, JobFields, JobState, Occurrence, When
from oncue.shapes.runs import Run

_job: Parse[Job] = model(Job)
_ids: Parse[tuple[str, ...]] = field("job_ids", tuple[str, ...])
_run_ids: Parse[tuple[str, ...]] = field("run_ids", tuple[str, ...])


def create(*, idempotency_key: str | None = None, **fields: Unpack[JobFields]) -> Call[Job]:
    """Make a job. Only `task` is needed; without a schedule it runs now.

    However often it has to be sent, it makes one job. With an `idempotency_key` of your own that also holds for calls
    that you repeat yourself, after a crash for instance.
    """
    return make(path("jobs"), _job, fields, idempotency_key)


def create_many(jobs: Iterable[JobFields], *, idempotency_key: str | None = None) -> Call[tuple[str, ...]]:
    """Make up to 10,000 jobs, all or none; their ids, in this order."""
    return make(path("jobs", "batch"), _ids, {"jobs": list(jobs)}, idempotency_key)


def put(key: str, /, **fields: Unpack[JobFields]) -> Call[Job]:
    """Make the job with this stable key of yours, or replace its whole definition."""
    return change("PUT", path("jobs", "by-key", key), _job, fields)


def show(job_id: str) -> Call[Job]:
    """One job: its definition and how it stands."""
    return get(path("jobs", job_id), _job)


def show_by_key(key: str) -> Call[Job]:
    """Your own job with this stable key, or, if it has ended, the one that had it last."""
    return get(path("jobs", "by-key", key), _job)


def page(
    *,
    status: str | None = None,
    last_status: str | None = None,
    task: str | None = None,
    name: str | None = None,
    tag: str | None = None,
    queue: str | None = None,
    start_time: datetime | str | None = None,
    end_time: datetime | str | None = None,
    user_id: str | None = None,
    limit: int | None = None,
    page_token: str | None = None,
) -> Call[Page[Job]]:
    """Your jobs, those that fit every filter given. `start_time` and `end_time` bound the next run; `limit` is the
    size of a page; `user_id` is for administrators."""
    return get(
        path("jobs"),
        page_of("jobs", Job),
        status=status,
        last_status=last_status,
        task=task,
        name=name,
        tag=tag,
        queue=queue,
        start_time=start_time,
        end_time=end_time,
        user_id=user_id,
        limit=limit,
        page_token=page_token,
    )


def edit(job_id: str, *, if_match: int | str | None = None, **fields: Unpack[JobFields]) -> Call[Job]:
    """Change these fields of a job, for every occurrence that has not started.

    With `if_match`, the `version` that you read: raises `Stale`, and changes nothing, if somebody was quicker.
    """
    headers = {} if if_match is None else {"If-Match": _etag(if_match)}
    return change("PATCH", path("jobs", job_id), _job, fields, headers)


def pause(job_id: str) -> Call[Job]:
    """Nothing of it starts until it is resumed, but what is asked for by hand; what runs goes on."""
    return change("POST", path("jobs", job_id, "pause"), _job)


def resume(job_id: str, *, missed: str | None = None) -> Call[Job]:
    """Its schedule goes on from now. `missed`: "skip", "last" or "all" of what the pause swallowed is made up for."""
    return change("POST", path("jobs", job_id, "resume"), _job, None if missed is None else {"missed": missed})


def cancel(job_id: str) -> Call[Job]:
    """Nothing of it starts after this; what runs is being stopped."""
    return change("DELETE", path("jobs", job_id), _job)


def purge(job_id: str) -> Call[None]:
    """Remove a job and all that is known of it. For administrators."""
    return Call(method="DELETE", path=path("jobs", job_id), parse=nothing, params={"purge": "true"}, removes=True)


def run_now(job_id: str, *, idempotency_key: str | None = None) -> Call[str]:
    """One more run at once, beside the schedule; its id."""
    return make(path("jobs", job_id, "runNow"), field("run_id", str), idempotency_key=idempotency_key)


def status(job_id: str) -> Call[JobState]:
    """Its latest run."""
    return get(path("jobs", job_id, "status"), model(JobState))


def runs_page(job_id: str, *, limit: int | None = None, page_token: str | None = None) -> Call[Page[Run]]:
    """Its runs, newest first."""
    return get(path("jobs", job_id, "runs"), page_of("runs", Run), limit=limit, page_token=page_token)


def occurrences_page(job_id: str, *, limit: int | None = None, page_token: str | None = None) -> Call[Page[Occurrence]]:
    """What became of every nominal instant of its schedule, newest first."""
    where = path("jobs", job_id, "occurrences")
    return get(where, page_of("occurrences", Occurrence), limit=limit, page_token=page_token)


def explain(job_id: str) -> Call[Explanation]:
    """Why it has or has not run yet."""
    return get(path("jobs", job_id, "explain"), model(Explanation))


def backfill(job_id: str, start: When, end: When, *, idempotency_key: str | None = None) -> Call[tuple[str, ...]]:
    """Runs for the occurrences between these instants, 10,000 at most; their ids."""
    body = {"from": start, "to": end}
    return make(path("jobs", job_id, "backfill"), _run_ids, body, idempotency_key)


def _etag(version: int | str) -> str:
    text = str(version)
    return text if text.endswith('"') else f'"{text}"'
