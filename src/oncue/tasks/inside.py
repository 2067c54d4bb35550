"""Calls of handles inside a run: the worker creates the jobs, for the owner of the run."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgspec

from oncue.context import Created, Reports, Submission

if TYPE_CHECKING:
    from oncue.client import AsyncJob, AsyncRun, Job, Run

_encode = msgspec.json.encode


async def submit(run: Reports, jobs: list[dict[str, Any]], idempotency_key: str | None) -> tuple[UUID, ...]:
    return await run.submit(_encode(Submission(jobs, idempotency_key)))


def submit_now(run: Reports, jobs: list[dict[str, Any]], idempotency_key: str | None) -> tuple[UUID, ...]:
    """RuntimeError: this is the worker's event loop, which must not wait for itself."""
    found = run.submit(_encode(Submission(jobs, idempotency_key)))
    if not isinstance(found, Created):
        asyncio.ensure_future(found).cancel()  # it has not begun
        raise RuntimeError("an async task must not block the event loop: leave out .sync, and await the call")
    return found.ids


def run_of(kind: type[Run[Any]] | type[AsyncRun[Any]], run_id: UUID, fields: dict[str, Any]) -> Any:
    """Return the new run of a job that runs once. It has no client: another run or a program waits for it."""
    status = "scheduled" if "schedule" in fields else "queued"
    return kind(run_id=run_id, job_id=run_id, status=status, task=fields["task"], job_key=fields.get("key"))


def job_of(kind: type[Job] | type[AsyncJob], job_id: UUID, fields: dict[str, Any]) -> Any:
    """Return the new job, as far as it is known here. It has no client."""
    payload, key = fields.get("payload"), fields.get("key")
    return kind(job_id=job_id, status="active", task=fields["task"], payload=payload, key=key)
