"""The table of all calls: the only source of routing, of the checks before a call, and of the OpenAPI document."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import ClassVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from oncue.api import (
    apply,
    audit,
    bulk,
    counts,
    create,
    dead_letters,
    edit_preview,
    editing,
    errors,
    events,
    findings,
    fleet,
    health,
    job_stats,
    jobs,
    keys,
    listing,
    lookup,
    metrics,
    notifications,
    occurrence_heat,
    occurrences,
    outbox,
    problems,
    queues,
    register_tasks,
    run_logs,
    runs,
    scaling,
    schedules,
    series,
    server,
    sessions,
    upcoming,
    users,
    versions,
    workers,
)
from oncue.api.http.auth import Caller
from oncue.api.listing import PAGING
from oncue.api.shared.context import Api
from oncue.api.shared.outcome import Outcome
from oncue.domain.fields import Reader
from oncue.intake.new_jobs import CREATE

OpenCall = Callable[[Api, Request], Awaitable[Response]]

NO_PARAMETERS: Mapping[str, Reader] = MappingProxyType({})
NO_ANSWERS: Mapping[int, str] = MappingProxyType({})


class _Told(msgspec.Struct, frozen=True, kw_only=True):
    """What the OpenAPI document says of a call.

    `query` are its parameters by the readers that it uses; `body` and `gives`, for each success status, are names in
    schemas.py (one with a slash is a media type); `headers` are names in openapi.py. `refuses` are the error statuses
    that do not follow from the rest: see `refusals` in openapi.py. `private`: not for viewers, although it only reads.
    `for_viewers`: for them, although it changes something. `signs_in`: the caller's key is in the body. `long`: it
    works through any number of objects, so that its calls to the database have time limits each and not all together.
    """

    admin: bool = False
    private: bool = False
    for_viewers: bool = False
    signs_in: bool = False
    long: bool = False
    query: Mapping[str, Reader] = NO_PARAMETERS
    body: str | None = None
    body_optional: bool = False
    headers: tuple[str, ...] = ()
    gives: Mapping[int, str] = NO_ANSWERS
    refuses: tuple[int, ...] = ()


class Read(_Told, frozen=True):
    """A call under /v1 that changes nothing."""

    action: ClassVar[None] = None
    method: str
    path: str
    call: Callable[[Api, Request, Caller], Awaitable[Response]]
    summary: str


class Change(_Told, frozen=True):
    """A call under /v1 that may change something. `action` is its name in the audit log."""

    method: str
    path: str
    call: Callable[[Api, Request, Caller], Awaitable[Outcome]]
    summary: str
    action: str


Route = Read | Change


def is_for_viewers(route: Route) -> bool:
    return route.for_viewers or (route.action is None and not route.private and not route.admin)


class OpenRoute(msgspec.Struct, frozen=True):
    """A call that needs no key, outside /v1."""

    path: str
    call: OpenCall
    summary: str
    refuses: tuple[int, ...] = ()


class TextRoute(msgspec.Struct, frozen=True):
    """A call outside /v1 for monitoring: it takes the metrics token or an admin key, and answers with text."""

    path: str
    summary: str
    refuses: tuple[int, ...] = (401, 403, 503)


# What several calls share, by the name of the field.
REPEATABLE = ("Idempotency-Key",)
VERSIONED = ("If-Match",)
VALUE = {200: "Result", 206: "application/octet-stream"}  # bytes of JSON are not JSON
MADE_OR_VERSIONED = ("If-Match", "If-None-Match")

ROUTES = (
    Change("POST", "/jobs", create.create, "Create a job", CREATE,
           query=create.DRY_RUN, body="NewJob", headers=REPEATABLE, gives={201: "Job", 200: "Job"}, refuses=(404, 409)),
    Change("POST", "/jobs/batch", create.batch, "Create many jobs in one transaction", "job.create_many",
           query=create.DRY_RUN, body="NewJobs", headers=REPEATABLE,
           gives={201: "JobIds", 200: "JobIds"}, refuses=(409,)),
    Change("POST", "/jobs/apply", apply.apply, "Apply a set of declared jobs", "job.apply",
           body="Declaration", gives={200: "Applied"}, refuses=(409,), long=True),
    Read("GET", "/jobs", listing.jobs, "List jobs, newest first",
         query={**listing.JOB_FILTERS, **PAGING}, gives={200: "JobPage"}, refuses=(403,)),
    Read("GET", "/jobs/by-key/{key}", jobs.show_by_key, "The caller's job with this key",
         gives={200: "Job"}, refuses=(404,)),  # before /jobs/{id}/runs and the like: a key may have such a name
    Read("GET", "/jobs/{id}", jobs.show, "A job", gives={200: "Job"}),
    Change("PATCH", "/jobs/{id}", editing.edit, "Change some fields of a job", "job.edit",
           body="JobChange", headers=VERSIONED, gives={200: "Job"}, refuses=(409,)),
    Change("PUT", "/jobs/{id}", editing.edit, "Change some fields of a job, like PATCH", "job.edit",
           body="JobChange", headers=VERSIONED, gives={200: "Job"}, refuses=(409,)),
    Change("PUT", "/jobs/by-key/{key}", editing.put, "Create or replace the job with this key", "job.put",
           query=create.DRY_RUN, body="KeyedJob", headers=MADE_OR_VERSIONED,
           gives={201: "Job", 200: "Job"}, refuses=(409,)),
    Change("DELETE", "/jobs/{id}", jobs.end, "Cancel a job and stop its running runs", "job.cancel",
           query=jobs.PARAMETERS, gives={200: "Job", 202: "Job"}, refuses=(409,)),
    Read("GET", "/jobs/{id}/status", jobs.status, "Get the latest run of a job", gives={200: "JobState"}),
    Read("GET", "/jobs/{id}/stats", job_stats.show, "Get outcomes, durations and start lags of a job's last runs",
         query=job_stats.PARAMETERS, gives={200: "JobStats"}),
    Read("POST", "/jobs/{id}/preview", edit_preview.preview, "Preview what an edit of a job would do", private=True,
         query=edit_preview.PARAMETERS, body="JobChange", headers=VERSIONED, gives={200: "EditPreview"},
         refuses=(409, 412)),
    Read("GET", "/jobs/{id}/versions", versions.show, "List a job's definitions, the present one first",
         query=PAGING, gives={200: "VersionPage"}),
    Read("GET", "/jobs/{id}/runs", jobs.runs, "List a job's runs, active ones first",
         query=PAGING, gives={200: "RunPage"}),
    Read("GET", "/jobs/{id}/occurrences", occurrences.show, "List a job's occurrences with their outcomes",
         query={**occurrences.WINDOW, **PAGING}, gives={200: "OccurrencePage"}),
    Read("GET", "/jobs/{id}/occurrences/heat", occurrence_heat.show, "Count a job's occurrences by outcome over time",
         query=occurrence_heat.PARAMETERS, gives={200: "OccurrenceHeat"}),
    Read("GET", "/jobs/{id}/explain", runs.job_explanation, "Explain why a job has not run",
         gives={200: "Explanation"}),
    Change("POST", "/jobs/{id}/runNow", jobs.run_now, "Run a job now", "job.run_now",
           body="OwnPayload", body_optional=True, headers=REPEATABLE, gives={202: "RunId"}, refuses=(409,)),
    Change("POST", "/jobs/{id}/pause", jobs.pause, "Pause a job", "job.pause",
           gives={200: "Job"}, refuses=(409,)),
    Change("POST", "/jobs/{id}/resume", jobs.resume, "Resume a paused job", "job.resume",
           body="Resuming", body_optional=True, gives={200: "Job"}, refuses=(409,)),
    Change("POST", "/jobs/{id}/backfill", occurrences.backfill, "Run past occurrences of a job", "job.backfill",
           body="Stretch", headers=REPEATABLE, gives={202: "RunIds"}, refuses=(409,)),
    Read("GET", "/runs", listing.runs, "List runs, active ones first",
         query={**listing.RUN_FILTERS, **PAGING}, gives={200: "RunPage"}, refuses=(403,)),
    Read("GET", "/runs/{id}", runs.show, "Get a run with its attempts",
         gives={200: "WholeRun"}),
    Read("GET", "/runs/{id}/logs", run_logs.show, "Get a run's log, or follow it until the run ends",
         query=run_logs.PARAMETERS, gives={200: "text/plain or LogParts"}),
    Read("GET", "/runs/{id}/result", runs.result, "Get a run's result, or a link to it",
         query=runs.VALUE_PARAMETERS, headers=("Range",), gives=VALUE, refuses=(409, 416)),
    Read("GET", "/runs/{id}/payload", runs.payload, "Get the payload of a run, or a link to it",
         query=runs.VALUE_PARAMETERS, headers=("Range",), gives=VALUE, refuses=(409, 416)),
    Read("GET", "/runs/{id}/explain", runs.explanation, "Explain why a run has not run", gives={200: "Explanation"}),
    Change("POST", "/runs/{id}/cancel", runs.cancel, "Cancel a run", "run.cancel", gives={200: "Run"}, refuses=(409,)),
    Change("POST", "/runs/{id}/retry", runs.retry, "Run an ended run again as a new run", "run.retry",
           body="Replacing", body_optional=True, headers=REPEATABLE, gives={202: "RunId"}, refuses=(409,)),
    Read("GET", "/dead-letters", dead_letters.show, "List dead letters",
         query={**dead_letters.LISTED, **PAGING}, gives={200: "DeadLetterPage"}, refuses=(403,)),
    Change("POST", "/dead-letters/requeue", dead_letters.requeue, "Run dead letters again", "dead_letters.requeue",
           body="Requeue", headers=REPEATABLE, gives={202: "Requeued"}, long=True),
    Change("POST", "/dead-letters/discard", dead_letters.discard, "Discard dead letters", "dead_letters.discard",
           body="Choice", gives={200: "Discarded"}, long=True),
    Change("POST", "/bulk", bulk.start, "Do something with many jobs, runs or dead letters", "bulk.start",
           body="BulkOf", headers=REPEATABLE, gives={202: "Bulk", 200: "BulkPreview"}, refuses=(409,)),
    Read("GET", "/bulk", bulk.recent, "List bulks, newest first", query=PAGING, gives={200: "BulkPage"}),
    Read("GET", "/bulk/{id}", bulk.show, "Get a bulk and how far it is", gives={200: "Bulk"}),
    Change("DELETE", "/bulk/{id}", bulk.stop, "Stop a bulk", "bulk.stop", gives={200: "Bulk"}),
    Read("GET", "/errors", errors.show, "List groups of errors, those with the newest failure first",
         query=PAGING, gives={200: "ErrorPage"}),
    Read("POST", "/schedules/preview", schedules.show_ahead, "Preview when a schedule fires",
         body="PreviewOf", gives={200: "Preview"}),
    Read("GET", "/events", events.stream, "Stream changes as they happen", query=events.PARAMETERS,
         headers=("Last-Event-ID",), gives={200: "text/event-stream"}, refuses=(404,)),
    Read("GET", "/tasks", fleet.tasks, "List registered tasks", gives={200: "Tasks"}),
    Change("PUT", "/tasks", register_tasks.register, "Register tasks without a worker", "tasks.register", admin=True,
           body="TasksOf", gives={200: "Tasks"}),
    Read("GET", "/workers", workers.listed, "List workers", gives={200: "Workers"}),
    Read("GET", "/workers/{id}", workers.show, "Get a worker", gives={200: "Worker"}),
    Read("GET", "/workers/{id}/runs", workers.runs, "List the runs that a worker holds now",
         query=PAGING, gives={200: "RunPage"}),
    Change("POST", "/workers/{id}/drain", workers.drain, "Drain a worker: it takes no new runs", "worker.drain",
           admin=True, gives={200: "Worker"}, refuses=(409,)),
    Change("POST", "/workers/{id}/resume", workers.resume, "Resume a drained worker", "worker.resume", admin=True,
           gives={200: "Worker"}),
    Read("GET", "/queues", queues.listed, "List queues", gives={200: "Queues"}),
    Change("POST", "/queues/{queue}/pause", queues.pause, "Pause a queue", "queue.pause", admin=True,
           gives={200: "Queue"}),
    Change("POST", "/queues/{queue}/resume", queues.resume, "Resume a paused queue", "queue.resume", admin=True,
           gives={200: "Queue"}),
    Read("GET", "/queues/{queue}", queues.show, "Get a queue", gives={200: "Queue"}, refuses=(404,)),
    Read("GET", "/notifications", notifications.show, "Get the caller's default entries and unreachable targets",
         gives={200: "Notifications"}),
    Change("PUT", "/notifications", notifications.put, "Replace the caller's default entries", "notifications.put",
           body="NotificationsOf", gives={200: "Notifications"}),
    Change("POST", "/notifications/test", notifications.test, "Send a test notice", "notifications.test",
           body="NotificationTest", gives={202: "RunId"}),
    Read("GET", "/notifications/secret", notifications.secret, "Get the secret that signs for a webhook",
         query=notifications.URL, gives={200: "WebhookSecret"}, private=True),  # it could forge messages
    Change("POST", "/notifications/secret/rotate", notifications.rotate, "Replace the secret of a webhook",
           "notifications.rotate", body="WebhookUrl", gives={200: "WebhookSecret"}),
    Read("GET", "/counts", counts.show, "Count jobs and runs by status, and dead letters, up to 10,001 of each",
         query=counts.PARAMETERS, gives={200: "CappedCounts"}, refuses=(403,)),
    Read("GET", "/lookup", lookup.show, "Find jobs, runs, workers and names by what people type",
         query=lookup.PARAMETERS, gives={200: "Lookup"}),
    Read("GET", "/me", keys.mine, "Get the caller's user and role", gives={200: "Me"}),
    Change("POST", "/session", sessions.create, "Sign a browser in with an API key", "session.create", signs_in=True,
           for_viewers=True, body="SessionOf", gives={201: "Session"}),
    Read("GET", "/session", sessions.show, "Get the caller and when its session ends", gives={200: "Session"}),
    Change("DELETE", "/session", sessions.end, "Sign a browser out", "session.delete", for_viewers=True,
           gives={200: "Session"}, refuses=(409,)),
    Change("POST", "/keys", keys.create, "Create an API key; the secret is shown only once", "key.create", admin=True,
           body="KeyOf", headers=REPEATABLE, gives={201: "NewKey"}, refuses=(409,)),
    Read("GET", "/keys", keys.show, "List API keys without their secrets", admin=True, gives={200: "Keys"}),
    Change("DELETE", "/keys/{id}", keys.revoke, "Revoke an API key", "key.revoke", admin=True,
           gives={200: "Key"}, refuses=(409,)),
    Read("GET", "/users", users.show, "List users with their keys, open jobs and quotas", admin=True,
         query=PAGING, gives={200: "UserPage"}),
    Change("DELETE", "/users/{user_id}", users.forget, "Forget a user and delete all data of theirs", "user.forget",
           admin=True, query=users.PARAMETERS, gives={202: "ForgottenUser"}, refuses=(404, 409)),
    Read("GET", "/audit", audit.show, "List audit entries, newest first",
         query={**audit.FILTERS, **PAGING}, gives={200: "AuditPage"}, refuses=(403,)),
    Read("GET", "/server", server.show, "Get the server's version, limits and time", gives={200: "Server"}),
    Read("GET", "/processes", server.processes, "List the processes that run on the database",
         gives={200: "Processes"}),
    Read("GET", "/scaling", scaling.show, "Get how many workers each queue needs", admin=True,
         query=scaling.PARAMETERS, gives={200: "Scaling"}),
    Read("GET", "/findings", findings.show, "List what the self-audit found, open findings first", admin=True,
         query=PAGING, gives={200: "FindingPage"}),
    Read("GET", "/outbox", outbox.show, "List enqueued jobs that are not created yet, oldest first", admin=True,
         query={**outbox.FILTERS, **PAGING}, gives={200: "OutboxPage"}),
    Read("GET", "/problems", problems.show, "List what needs attention, most severe first",
         gives={200: "Problems"}),
    Read("GET", "/upcoming", upcoming.show, "List the runs to come, the next first",
         query={**upcoming.FILTERS, **PAGING}, gives={200: "UpcomingPage"}),
    Read("GET", "/upcoming/density", upcoming.density, "Get how many runs come when",
         query=upcoming.DENSITY, gives={200: "UpcomingDensity"}),
    Read("GET", "/upcoming/skipped", upcoming.skipped, "List occurrences that daylight saving will drop",
         query=upcoming.FILTERS, gives={200: "UpcomingSkipped"}),
    Read("GET", "/stats", fleet.stats, "Get run counts by status, task and queue", gives={200: "Stats"}),
    Read("GET", "/stats/series", series.show, "Get counts, start lags or run times over time",
         query=series.PARAMETERS, gives={200: "SeriesAnswer"}, refuses=(403,)),
)  # fmt: skip

TEXT_ROUTES = (
    TextRoute(metrics.PROCESS, "Get the metrics of this process"),
    TextRoute(metrics.CLUSTER, "Get the metrics of the whole cluster"),
)

OPEN_ROUTES = (
    OpenRoute("/healthz", health.alive, "Check that this process is alive"),
    OpenRoute("/readyz", health.ready, "Check that the database accepts writes", refuses=(503,)),
)
