"""Calls on actions on many objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from oncue.client.call import Call, Id, Page, change, get, given, make, model, page_of, path
from oncue.shapes.bulk import Bulk, BulkPreview


def start(
    action: str,
    *,
    filter: Mapping[str, Any] | None = None,  # noqa: A002 - the field's name
    ids: Iterable[Id] | None = None,
    of: str | None = None,
    missed: str | None = None,
    payload_patch: Mapping[str, Any] | None = None,
    idempotency_key: str | None = None,
) -> Call[Bulk]:
    """Do something with many objects: `pause`, `resume`, `cancel` or `run` jobs, `retry` (run again) or, with
    `of="runs"`, `cancel` runs, `requeue` (run again) or `discard` dead letters. A filter takes what their list takes.
    `payload_patch` changes a part of the payload of each dead letter (RFC 7396: null removes). Returns at once."""
    body = _body(action, filter, ids, of, missed) | (given(payload_patch=payload_patch) or {})
    return make(path("bulk"), model(Bulk), body, idempotency_key)


def preview(
    action: str,
    *,
    filter: Mapping[str, Any] | None = None,  # noqa: A002 - the field's name
    ids: Iterable[Id] | None = None,
    of: str | None = None,
) -> Call[BulkPreview]:
    """Say how many objects it would act on, counted up to about 1,000, with some of them. Changes nothing."""
    body = _body(action, filter, ids, of, None) | {"dry_run": True}
    call = change("POST", path("bulk"), model(BulkPreview), body)
    return Call(method=call.method, path=call.path, parse=call.parse, body=call.body, reads=True)


def show(bulk_id: Id) -> Call[Bulk]:
    """Get a bulk: how far it is, and what it could not do."""
    return get(path("bulk", bulk_id), model(Bulk))


def page(*, limit: int | None = None, page_token: str | None = None) -> Call[Page[Bulk]]:
    """List bulks, newest first."""
    return get(path("bulk"), page_of("bulks", Bulk), limit=limit, page_token=page_token)


def stop(bulk_id: Id) -> Call[Bulk]:
    """Stop a bulk. What it has done stays done."""
    return change("DELETE", path("bulk", bulk_id), model(Bulk))


def _body(
    action: str, fitting: Mapping[str, Any] | None, ids: Iterable[Id] | None, of: str | None, missed: str | None
) -> dict[str, Any]:
    if (ids is None) == (fitting is None):
        raise ValueError("pass either ids or filter")
    which = {"ids": list(ids)} if ids is not None else {"filter": dict(fitting or {})}
    return {"action": action, **which, **(given(of=of, missed=missed) or {})}
