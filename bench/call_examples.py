"""Example requests for every call that only reads, for bench/calls.py.

`{recurring}` and the like stand for ids of bench/filled_store.py, another one in each request; `{from}`, `{to}`,
`{soon}` and `{later}` for instants: a day of the past, and a day of the future. A call without an example is an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from oncue.api.routes import ROUTES, Read, Route


@dataclass(frozen=True)
class Example:
    """A request. Without `path`, that of the call; `admin`: only as an administrator."""

    path: str = ""
    query: str = ""
    body: Any = None
    admin: bool = False


def _ids(path: str, *names: str, query: str = "") -> list[Example]:
    return [Example(path.replace("{id}", f"{{{name}}}"), query) for name in names]


def _queries(*queries: str) -> list[Example]:
    return [Example(query=query) for query in queries]


ONE_SHOT = {"task": "task-1", "schedule": "{soon}", "payload": {"n": 1}}
JOBS = ("recurring", "one_shot", "ended")
RUNS = ("recurring_run", "ended", "dead", "running", "one_shot")

EXAMPLES: dict[str, list[Example]] = {
    "GET /jobs": [
        *_queries(
            "",
            "status=active",
            "status=paused",
            "status=finished",
            "status=active,finished",
            "last_status=dead",
            "last_status=succeeded",
            "task=task-3",
            "task=rare",
            "task=nothing",
            "name=nightly-0000077",
            "name_prefix=nightly-00000",
            "tag=nightly",
            "tag=team-7",
            "queue=slow",
            "start_time={soon}&end_time={later}",
            "start_time={soon}&end_time={later}&task=rare",
            "tag=nightly&status=active",
            "limit=1000",
            "recent=20",
            "health=failing",
        ),
        Example(query="user_id=large", admin=True),
    ],
    "GET /jobs/by-key/{key}": [Example("/jobs/by-key/{key}")],
    "GET /jobs/{id}": _ids("/jobs/{id}", *JOBS, "dead", "running"),
    "GET /jobs/{id}/status": _ids("/jobs/{id}/status", *JOBS),
    "GET /jobs/{id}/runs": _ids("/jobs/{id}/runs", *JOBS),
    "GET /jobs/{id}/occurrences": _ids("/jobs/{id}/occurrences", "recurring", "one_shot"),
    "GET /jobs/{id}/occurrences/heat": _ids(
        "/jobs/{id}/occurrences/heat", "recurring", query="from={from}&to={to}&step=1h"
    ),
    "GET /jobs/{id}/stats": _ids("/jobs/{id}/stats", *JOBS),
    "GET /jobs/{id}/versions": _ids("/jobs/{id}/versions", *JOBS),
    "POST /jobs/{id}/preview": [
        Example("/jobs/{recurring}/preview", body={"schedule": "0 9 * * 1-5"}),
        Example("/jobs/{one_shot}/preview", body={"priority": "high"}),
    ],
    "GET /jobs/{id}/explain": _ids("/jobs/{id}/explain", *JOBS, "running"),
    "GET /runs": _queries(
        "",
        "status=queued",
        "status=scheduled",
        "status=running",
        "status=succeeded",
        "status=dead",
        "status=cancelled",
        "status=expired",
        "job_id={recurring}",
        "task=rare",
        "task=nothing",
        "queue=slow",
        "start_time={from}&end_time={to}",
        "start_time={from}&end_time={to}&status=dead",
        "ended_after={from}&ended_before={to}",
        "ended_after={from}&ended_before={to}&status=dead,cancelled",
        "trigger=schedule",
        "worker_id={worker}",
        "error_type=ValueError",
        "limit=1000",
    ),
    "GET /runs/{id}": _ids("/runs/{id}", *RUNS),
    "GET /runs/{id}/logs": _ids("/runs/{id}/logs", "logged"),
    "GET /runs/{id}/result": _ids("/runs/{id}/result", "recurring_run"),
    "GET /runs/{id}/payload": _ids("/runs/{id}/payload", "dead", "one_shot"),
    "GET /runs/{id}/explain": _ids("/runs/{id}/explain", *RUNS),
    "GET /dead-letters": _queries("", "task=rare", "task=task-0", "limit=1000"),
    "POST /schedules/preview": [
        Example(body={"schedule": "0 9 * * 1-5", "count": 10}),
        Example(body={"schedule": {"cron": "0 0 29 2 *", "timezone": "Europe/Berlin"}, "count": 100}),
    ],
    "GET /errors": _queries("", "limit=1000"),
    "GET /bulk": _queries(""),
    "POST /bulk": [
        Example(body={"action": "pause", "of": "jobs", "filter": {"tag": "nightly"}, "dry_run": True}),
        Example(body={"action": "requeue", "of": "dead_letters", "filter": {}, "dry_run": True}),
    ],
    "GET /counts": _queries(""),
    "GET /session": _queries(""),
    "GET /upcoming": _queries("", "from={soon}&to={later}", "task=rare", "queue=slow", "job_id={recurring}"),
    "GET /upcoming/density": _queries("", "from={soon}&to={later}&step=1h", "by=task", "by=task,queue"),
    "GET /upcoming/skipped": _queries("", "from={soon}&to={later}", "job_id={recurring}"),
    "GET /tasks": _queries(""),
    "GET /workers": _queries(""),
    "GET /workers/{id}": _ids("/workers/{id}", "worker"),
    "GET /workers/{id}/runs": _ids("/workers/{id}/runs", "worker"),
    "GET /queues": _queries(""),
    "GET /queues/{queue}": [Example("/queues/slow"), Example("/queues/default")],
    "GET /problems": _queries(""),
    "GET /notifications": _queries(""),
    "GET /notifications/secret": _queries("url=https%3A%2F%2Fexample.org%2Fhook"),
    "GET /lookup": _queries("q={recurring}", "q={short}", "q={key}", "q=nightly-00", "q=task", "q=nothing-like-it"),
    "GET /me": _queries(""),
    "GET /keys": _queries(""),
    "GET /users": _queries("", "limit=1000"),
    "GET /audit": [
        *_queries("", "object_id={recurring}", "action=job.create", "action=key.create"),
        *_queries("start_time={from}&end_time={to}"),
        Example(query="user_id=large", admin=True),
    ],
    "GET /server": _queries(""),
    "GET /processes": _queries(""),
    "GET /scaling": _queries("", "queue=slow"),
    "GET /findings": _queries(""),
    "GET /outbox": _queries("", "status=refused"),
    "GET /stats": _queries(""),
    "GET /stats/series": [
        *_queries("what=succeeded", "what=succeeded&from={from}&to={to}&step=1h"),
        Example(query="what=lag&from={from}&to={to}&step=1h", admin=True),
        Example(query="what=succeeded&by=task&from={from}&to={to}&step=1h", admin=True),
    ],
    "POST /jobs": [Example(query="dry_run=true", body=ONE_SHOT)],
    "POST /jobs/batch": [Example(query="dry_run=true", body={"jobs": [ONE_SHOT] * 100})],
    "PUT /jobs/by-key/{key}": [Example("/jobs/by-key/{key}", query="dry_run=true", body=ONE_SHOT)],
}
DRY_BY_BODY = ("POST /bulk", "POST /jobs/apply")  # `dry_run` is a field of what they are sent
NOT_MEASURED = {
    "GET /events": "a stream that does not end",
    "GET /bulk/{id}": "the store has no bulk; a bulk is one row that is found by its key",
    "POST /jobs/apply": "reads and decides as much as it is sent, not a page",
}


def name_of(route: Route) -> str:
    return f"{route.method} {route.path}"


def only_reads(route: Route) -> bool:
    """Return whether the call changes nothing, or need not: with dry_run=true."""
    return isinstance(route, Read) or "dry_run" in route.query or name_of(route) in DRY_BY_BODY


def routes() -> dict[str, Route]:
    """Return the calls to measure. ValueError: one has no example, or an example has no call any more."""
    found = {name_of(route): route for route in ROUTES if only_reads(route) and name_of(route) not in NOT_MEASURED}
    missing, unknown = sorted(found.keys() - EXAMPLES.keys()), sorted(EXAMPLES.keys() - found.keys())
    if missing or unknown:
        told = [f"{name} has no example" for name in missing] + [f"{name} is no call that reads" for name in unknown]
        raise ValueError(f"{', '.join(told)}: correct EXAMPLES in bench/call_examples.py")
    return found
