"""Calls on runs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from oncue.client.call import (
    Answer,
    Call,
    Id,
    Page,
    anything,
    change,
    field,
    get,
    given,
    make,
    model,
    page_of,
    path,
    text,
)
from oncue.shapes.jobs import Explanation
from oncue.shapes.runs import Run, ValueLink, WholeRun


def page(
    *,
    status: str | None = None,
    job_id: Id | None = None,
    task: str | None = None,
    queue: str | None = None,
    start_time: datetime | str | None = None,
    end_time: datetime | str | None = None,
    ended_after: datetime | str | None = None,
    ended_before: datetime | str | None = None,
    trigger: str | None = None,
    worker_id: Id | None = None,
    error_type: str | None = None,
    user_id: str | None = None,
    limit: int | None = None,
    page_token: str | None = None,
) -> Call[Page[Run]]:
    """List runs that match all filters; `status` and `trigger` take one or more, like "running,queued"; `user_id` is
    for administrators; `limit` is the size of a page."""
    return get(
        path("runs"),
        page_of("runs", Run),
        status=status,
        job_id=job_id,
        task=task,
        queue=queue,
        start_time=start_time,
        end_time=end_time,
        ended_after=ended_after,
        ended_before=ended_before,
        trigger=trigger,
        worker_id=worker_id,
        error_type=error_type,
        user_id=user_id,
        limit=limit,
        page_token=page_token,
    )


def show(run: Id, /) -> Call[WholeRun]:
    """Get a run with its payload and all its attempts."""
    return get(path("runs", run), model(WholeRun))


def logs(run: Id, /, *, tail: int | None = None) -> Call[str]:
    """Get a run's log so far, or its last `tail` lines."""
    return get(path("runs", run, "logs"), text, tail=tail)


class LogRest(NamedTuple):
    """A log, or what was added to it."""

    text: bytes
    delayed: bool
    """a part that is already written is not stored yet"""


def logs_after(run: Id, /, after: int, *, tail: int | None = None) -> Call[LogRest]:
    """Get what was added to a run's log after its first `after` bytes, or the last `tail` lines of that."""
    return get(path("runs", run, "logs"), _log_rest, after=after, tail=tail)


def _log_rest(answer: Answer) -> LogRest:
    return LogRest(answer.body, answer.headers.get("log-delayed") == "true")


def log_parts(run: Id, /, *, after: int | None = None, limit: int | None = None) -> Call[dict[str, Any]]:
    """Get parts of a run's log, each with its number and time: those after the number `after`."""
    return get(path("runs", run, "logs"), anything, format="json", after=after, limit=limit)


def result(run: Id, /) -> Call[Any]:
    """Get the task's return value. Raises `Conflict` unless the run succeeded."""
    return get(path("runs", run, "result"), anything)


def result_link(run: Id, /) -> Call[ValueLink]:
    """Get a link to a large result, good for 5 minutes. Raises `Conflict` if storage is a folder or it is small."""
    return get(path("runs", run, "result"), model(ValueLink), link="true")


def payload(run: Id, /) -> Call[Any]:
    """Get a run's payload."""
    return get(path("runs", run, "payload"), anything)


def payload_link(run: Id, /) -> Call[ValueLink]:
    """Get a link to a large payload, as `result_link` does to a result."""
    return get(path("runs", run, "payload"), model(ValueLink), link="true")


def cancel(run: Id, /) -> Call[Run]:
    """Cancel a run: `cancelling` until its worker has stopped it. Raises `Conflict` if it had already ended."""
    return change("POST", path("runs", run, "cancel"), model(Run))


def retry(
    run: Id,
    /,
    *,
    payload: Mapping[str, Any] | None = None,
    payload_patch: Mapping[str, Any] | None = None,
    idempotency_key: str | None = None,
) -> Call[UUID]:
    """Run an ended run again as a new run, with its payload, another one, or its own patched (RFC 7396: null removes).

    Returns the id of the new run. A dead run leaves the dead letters.
    """
    body = given(payload=payload, payload_patch=payload_patch)
    return make(path("runs", run, "retry"), field("run_id", UUID), body, idempotency_key)


def explain(run: Id, /) -> Call[Explanation]:
    """Explain why a run has or has not started."""
    return get(path("runs", run, "explain"), model(Explanation))
