"""Every call there is: the one source of routing, of what is checked before a call, and of what programs are told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from oncue.api import (
    audit,
    backfill,
    creating,
    dead_letters,
    editing,
    events,
    explaining,
    fleet,
    jobs,
    keys,
    listing,
    occurrences,
    queues,
    runs,
    schedules,
    stats,
)
from oncue.api.auth import Caller
from oncue.api.context import Api

Call = Callable[[Api, Request, Caller], Awaitable[Response]]


class Route(msgspec.Struct, frozen=True):
    """A call under /v1. `action` is what the audit log calls it; None: it changes nothing."""

    method: str
    path: str
    call: Call
    summary: str
    action: str | None = None
    admin: bool = False


ROUTES = (
    Route("POST", "/jobs", creating.create, "Make a job", "job.create"),
    Route("POST", "/jobs/batch", creating.batch, "Make many jobs, all or none", "job.create_many"),
    Route("GET", "/jobs", listing.jobs, "Jobs, filtered, newest first"),
    Route("GET", "/jobs/{id}", jobs.show, "A job"),
    Route("PATCH", "/jobs/{id}", editing.edit, "Change some fields of a job", "job.edit"),
    Route("PUT", "/jobs/{id}", editing.edit, "Change some fields of a job: as PATCH", "job.edit"),
    Route("PUT", "/jobs/by-key/{key}", editing.put, "Make or replace the job with this key", "job.put"),
    Route("DELETE", "/jobs/{id}", jobs.cancel, "End a job: nothing of it starts any more", "job.cancel"),
    Route("GET", "/jobs/{id}/status", jobs.status, "The latest run of a job"),
    Route("GET", "/jobs/{id}/runs", jobs.runs, "The runs of a job, newest first"),
    Route("GET", "/jobs/{id}/occurrences", occurrences.show, "What became of each occurrence"),
    Route("GET", "/jobs/{id}/explain", explaining.job, "Why a job has or has not run yet"),
    Route("POST", "/jobs/{id}/runNow", jobs.run_now, "Run a job at once, whatever its schedule", "job.run_now"),
    Route("POST", "/jobs/{id}/pause", jobs.pause, "Stop its schedule until it is resumed", "job.pause"),
    Route("POST", "/jobs/{id}/resume", jobs.resume, "Let its schedule go on", "job.resume"),
    Route("POST", "/jobs/{id}/backfill", backfill.backfill, "Run past occurrences of a job", "job.backfill"),
    Route("GET", "/runs", listing.runs, "Runs, filtered: live ones, then those that ended last"),
    Route("GET", "/runs/{id}", runs.show, "A run with every attempt"),
    Route("GET", "/runs/{id}/logs", runs.logs, "What a run wrote"),
    Route("GET", "/runs/{id}/result", runs.result, "What a run returned"),
    Route("GET", "/runs/{id}/explain", explaining.run, "Why a run has or has not run yet"),
    Route("POST", "/runs/{id}/cancel", runs.cancel, "Stop a run", "run.cancel"),
    Route("POST", "/runs/{id}/retry", runs.retry, "Run an ended run again", "run.retry"),
    Route("GET", "/dead-letters", dead_letters.show, "Runs that used up their attempts"),
    Route("POST", "/dead-letters/requeue", dead_letters.requeue, "Run dead letters again", "dead_letters.requeue"),
    Route("POST", "/dead-letters/discard", dead_letters.discard, "Let dead letters be", "dead_letters.discard"),
    Route("POST", "/schedules/preview", schedules.show_ahead, "When a schedule fires; nothing is stored"),
    Route("GET", "/events", events.stream, "Changes of runs and jobs, as they happen"),
    Route("GET", "/tasks", fleet.tasks, "The tasks that workers have announced"),
    Route("GET", "/workers", fleet.workers, "The workers there are"),
    Route("GET", "/queues", queues.show, "The queues there are"),
    Route("POST", "/queues/{queue}/pause", queues.pause, "Start nothing of a queue", "queue.pause", admin=True),
    Route("POST", "/queues/{queue}/resume", queues.resume, "Let a queue go on", "queue.resume", admin=True),
    Route("POST", "/keys", keys.create, "Make a key; its secret is told this once", "key.create", admin=True),
    Route("GET", "/keys", keys.show, "The keys there are, without their secrets", admin=True),
    Route("DELETE", "/keys/{id}", keys.revoke, "Make a key good for nothing", "key.revoke", admin=True),
    Route("GET", "/audit", audit.show, "Who did what, newest first"),
    Route("GET", "/stats", stats.show, "What there is and what happened, in numbers"),
)
