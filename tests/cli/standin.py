"""Stand-ins for the parts of a server: one that says what it was told to, and one that keeps jobs by their keys."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit
from uuid import UUID

import msgspec

from oncue.api import views
from oncue.domain.definition import define
from oncue.domain.errors import Invalid
from oncue.domain.ids import ClassId, JobId, UserNumber
from oncue.domain.job import Job, Snapshot
from oncue.testing.clock import SOME_DAY

Said = tuple[int, Any]


class Request(msgspec.Struct, frozen=True):
    method: str
    path: str
    query: dict[str, str]
    body: Any
    headers: dict[str, str]

    @property
    def parts(self) -> list[str]:
        """What follows the version in the path."""
        return [unquote(part) for part in self.path.split("/")[2:]]

    @property
    def line(self) -> str:
        return f"{self.method} {self.path}"


class Standin:
    """Answers requests by a function, and keeps them."""

    def __init__(self, answer: Callable[[Request], Said]) -> None:
        self.answer = answer
        self.requests: list[Request] = []
        self.url = ""

    def __call__(self, request: Request) -> Said:
        self.requests.append(request)
        return self.answer(request)

    @property
    def lines(self) -> list[str]:
        return [request.line for request in self.requests]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    standin: Standin

    def _serve(self) -> None:
        parts = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, said = self.standin(
            Request(
                self.command,
                parts.path,
                dict(parse_qsl(parts.query)),
                msgspec.json.decode(body) if body else None,
                dict(self.headers.items()),
            )
        )
        content = said.encode() if isinstance(said, str) else msgspec.json.encode(said)
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815

    def log_message(self, *args: Any) -> None:
        pass


@contextmanager
def standing_in(standin: Standin) -> Iterator[Standin]:
    handler = type("Bound", (Handler,), {"standin": standin})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        standin.url = f"http://127.0.0.1:{server.server_port}"
        yield standin
        server.shutdown()
        thread.join()


class KeptJobs:
    """As much of the API as `oncue apply` needs, with definitions read and shown by the code of the real one."""

    def __init__(self) -> None:
        self.jobs: dict[str, dict[str, Any]] = {}
        self.me = {"user_id": "ada", "role": "member", "key_id": str(UUID(int=1))}
        self.tasks = [{"name": "hello", "defaults": {"timeout": "30s"}}, {"name": "http", "defaults": {}}]

    def __call__(self, request: Request) -> Said:
        match request.method, request.parts:
            case "GET", ["tasks"]:
                return 200, {"tasks": self.tasks}
            case "GET", ["me"]:
                return 200, self.me
            case "GET", ["jobs", "by-key", key] if key in self.jobs:
                return 200, self.jobs[key]
            case "GET", ["jobs"]:
                return 200, self._page(request.query)
            case "PUT", ["jobs", "by-key", key]:
                return self._put(key, request.body)
            case "DELETE", ["jobs", job_id]:
                [job] = [job for job in self.jobs.values() if job["job_id"] == job_id]
                job["status"] = "cancelled"
                return 200, job
        return 404, {"title": "Not Found", "status": 404, "detail": "there is nothing at this path"}

    def add(self, key: str, **fields: Any) -> dict[str, Any]:
        """A job that is there; somebody else's, or an earlier apply's."""
        status, job = self._put(key, {"task": "hello", "schedule": "every 1h", **fields})
        assert status == 201
        return job

    def _page(self, query: dict[str, str]) -> dict[str, Any]:
        """One job a page, to see that all pages are read."""
        fitting = [
            job
            for job in self.jobs.values()
            if query["tag"] in job["tags"] and query.get("user_id", job["user_id"]) == job["user_id"]
        ]
        place = int(query.get("page_token", 0))
        more = str(place + 1) if place + 1 < len(fitting) else None
        return {"jobs": fitting[place : place + 1], "next_page_token": more}

    def _put(self, key: str, fields: dict[str, Any]) -> Said:
        defaults = next((task["defaults"] for task in self.tasks if task["name"] == fields.get("task")), None)
        try:
            if defaults is None:
                raise Invalid.of("task", "unknown_task", "no worker has announced this task")
            spec, payload = define({**fields, "key": key}, defaults, SOME_DAY)
        except Invalid as wrong:
            return 422, {"title": "No", "status": 422, "detail": str(wrong), "errors": wrong.problems}
        before = self.jobs.get(key)
        job_id = UUID(int=len(self.jobs) + 1) if before is None else UUID(before["job_id"])
        version = 1 if before is None else before["version"] + 1
        job = Job(
            JobId(job_id), UserNumber(1), spec, payload, created_at=SOME_DAY, updated_at=SOME_DAY, version=version
        )
        shown = views.job(Snapshot(job, ClassId(1), None, ()), "ada", None)
        self.jobs[key] = msgspec.json.decode(msgspec.json.encode(shown))
        return (201 if before is None else 200), self.jobs[key]
