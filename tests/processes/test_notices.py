"""Notices between real processes: the worker that runs the job is not the one that tells of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import quote

import pytest
from standardwebhooks import Webhook
from tests.processes.fleet import Fleet, until

pytestmark = pytest.mark.kills

GUARDED = ("--http-allow", "127.0.0.1/32", "--webhook-plain")


class Receiver(ThreadingHTTPServer):
    """Records posts; answers 500 as long as `broken`."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.posts: list[tuple[bytes, dict[str, str]]] = []
        self.tries = 0
        self.broken = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/hook"


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.tries += 1
        if not self.server.broken:
            self.server.posts.append((body, {name.lower(): value for name, value in self.headers.items()}))
        self.send_response(500 if self.server.broken else 204)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_notice_outlives_the_worker_that_made_it_and_the_one_that_sends_it(
    any_fleet: Fleet, receiver: Receiver
) -> None:
    fleet = any_fleet
    receiver.broken = True
    fleet.start("api", *GUARDED)
    fleet.start("scheduler")
    worker = fleet.start("worker", "--no-notify")
    teller = fleet.start("worker", "--only-notify", "--lease", "3s", *GUARDED)
    fleet.ready(workers=2)
    entries = [{"on": ["failed"], "webhook": receiver.url, "text": "{job_name} is {status}"}]
    job = fleet.call("POST", "/jobs", {"task": "fail", "name": "backup", "max_retries": 0, "notify": entries})
    fleet.at_rest([job["job_id"]])
    worker.kill()
    until(lambda: receiver.tries > 0, "a try failed", fleet.tell)
    teller.kill()
    receiver.broken = False
    fleet.start("worker", "--only-notify", *GUARDED)

    until(lambda: receiver.posts, "the notice arrived", fleet.tell)
    body, headers = receiver.posts[0]
    secret = fleet.call("GET", f"/notifications/secret?url={quote(receiver.url, safe='')}")["secret"]
    event: Any = Webhook(secret).verify(body, headers)
    assert (event["type"], event["data"]["run_id"]) == ("run.failed", job["job_id"])
    assert event["data"]["text"] == "backup is dead"
    assert headers["ce-id"] == headers["webhook-id"]
    listed = fleet.call("GET", "/runs?system=true")["runs"]
    assert {run["task"] for run in listed} == {"fail", "notify"}
    assert len(receiver.posts) == 1
