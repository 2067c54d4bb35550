"""Calls on dead letters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from oncue.client.call import Call, Id, Page, change, field, get, given, make, model, page_of, path
from oncue.shapes.runs import DeadLetter, Requeued


def page(
    *,
    job_id: Id | None = None,
    task: str | None = None,
    queue: str | None = None,
    start_time: datetime | str | None = None,
    end_time: datetime | str | None = None,
    fingerprint: str | None = None,
    user_id: str | None = None,
    limit: int | None = None,
    page_token: str | None = None,
) -> Call[Page[DeadLetter]]:
    """List dead letters that match all filters, with payload and attempts. `start_time` and `end_time` bound the time
    they were scheduled for; `fingerprint` is that of a group of errors; `user_id` is for administrators; `limit` is
    the size of a page."""
    return get(
        path("dead-letters"),
        page_of("dead_letters", DeadLetter),
        job_id=job_id,
        task=task,
        queue=queue,
        start_time=start_time,
        end_time=end_time,
        fingerprint=fingerprint,
        user_id=user_id,
        limit=limit,
        page_token=page_token,
    )


def show(run: Id, /) -> Call[DeadLetter]:
    """Get a dead run with its payload, also after it was run again or discarded. Other runs have no payload."""
    return get(path("runs", run), model(DeadLetter))


def requeue(
    run_ids: Iterable[Id] | None = None,
    *,
    filter: Mapping[str, Any] | None = None,  # noqa: A002 - the field's name
    payload: Mapping[str, Any] | None = None,
    payload_patch: Mapping[str, Any] | None = None,
    idempotency_key: str | None = None,
) -> Call[Requeued]:
    """Run these dead letters again, or all that match the filter, each as a new run.

    `payload` replaces that of a single one, `payload_patch` changes a part of each (RFC 7396: null removes). Letters
    that it does not fit are listed as `refused`, and stay.
    """
    body = _which(run_ids, filter) | (given(payload=payload, payload_patch=payload_patch) or {})
    return make(path("dead-letters", "requeue"), model(Requeued), body, idempotency_key)


def discard(
    run_ids: Iterable[Id] | None = None,
    *,
    filter: Mapping[str, Any] | None = None,  # noqa: A002 - the field's name
) -> Call[int]:
    """Discard these dead letters, or all that match the filter. Returns how many. Their runs stay in the history."""
    return change("POST", path("dead-letters", "discard"), field("count", int), _which(run_ids, filter))


def _which(run_ids: Iterable[Id] | None, fitting: Mapping[str, Any] | None) -> dict[str, Any]:
    if (run_ids is None) == (fitting is None):
        raise ValueError("pass either run_ids or filter")
    return {"filter": dict(fitting)} if run_ids is None and fitting is not None else {"run_ids": list(run_ids or ())}
