"""How calls are repeated: what is safe to repeat, how often, and after how long."""

import os
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from uuid import UUID

import httpx2
import msgspec
import pytest
from tests.client.both import J1, K1, R1, R2, Pauses, Wire, problem, said
from tests.client.conftest import Connect

from oncue.client import Client, Forbidden, NotFound, ServerUnreachable, TooManyRequests, Unavailable

NAN = {"amounts": [None, float("nan")]}
JOB = {"job_id": J1, "task": "hello", "status": "active"}
RUN = {"run_id": R1, "job_id": J1, "status": "succeeded"}
DROPPED = httpx2.ReadError("connection reset")
MAKING = [
    ("jobs.create", (), {"task": "hello"}, JOB),
    ("jobs.create_many", ([{"task": "hello"}],), {}, {"job_ids": [J1]}),
    ("jobs.backfill", (J1, "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"), {}, {"run_ids": [R1]}),
    ("dead_letters.requeue", ([R1],), {}, {"count": 1, "run_ids": [R2]}),
    ("keys.create", ("ada",), {}, {"key_id": K1, "user_id": "ada", "role": "member", "key": "oc_2"}),
]
STARTING = [  # each is followed by reading the run that it created
    ("jobs.run_now", (J1,), {}, {"run_id": R1}),
    ("runs.retry", (R2,), {}, {"run_id": R1}),
]
SAFE = [
    ("jobs.get", (J1,), {}, JOB),
    ("jobs.put", ("nightly",), {"task": "hello"}, JOB),
    ("jobs.cancel", (J1,), {}, JOB),
    ("schedules.preview", ("every 30s",), {}, {"description": "", "occurrences": []}),
]
UNSAFE = [
    ("jobs.edit", (J1,), {"name": "x"}),
    ("jobs.pause", (J1,), {}),
    ("jobs.resume", (J1,), {}),
    ("runs.cancel", (R1,), {}),
    ("dead_letters.discard", ([R1],), {}),
    ("queues.pause", ("default",), {}),
    ("queues.resume", ("default",), {}),
]


def method(client: Any, name: str) -> Any:
    for part in name.split("."):
        client = getattr(client, part)
    return client


@pytest.mark.parametrize(("name", "args", "fields", "answer"), SAFE + MAKING, ids=lambda v: v if type(v) is str else "")
@pytest.mark.parametrize("failure", [DROPPED, problem(503), problem(429)], ids=["dropped", "503", "429"])
def test_what_is_safe_to_repeat_is_repeated(
    connect: Connect, name: str, args: Any, fields: Any, answer: Any, failure: Any
) -> None:
    wire = Wire(failure, said(answer))
    either = connect(wire)

    either(method(either.client, name)(*args, **fields))

    assert len(wire.requests) == 2
    assert wire.lines[0] == wire.lines[1]
    assert wire.bodies[0] == wire.bodies[1]


@pytest.mark.parametrize(("name", "args", "fields", "answer"), MAKING, ids=lambda v: v if type(v) is str else "")
def test_whatever_makes_something_carries_one_key_for_all_its_tries(
    connect: Connect, name: str, args: Any, fields: Any, answer: Any
) -> None:
    wire = Wire(DROPPED, DROPPED, said(answer), said(answer), said(answer))
    either = connect(wire)

    either(method(either.client, name)(*args, **fields))
    either(method(either.client, name)(*args, **fields))
    either(method(either.client, name)(*args, **fields, idempotency_key="my own"))

    keys = [one.headers["Idempotency-Key"] for one in wire.requests]
    assert keys[0] == keys[1] == keys[2] != keys[3]
    assert keys[4] == "my own"
    assert "idempotency_key" not in str(wire.bodies[4])


@pytest.mark.parametrize(
    ("given", "said"),
    [*(({"idempotency_key": key}, "1 to 255 printable") for key in ("", "ä", "a\nb", 7)), ({"payload": NAN}, "NaN")],
)
def test_what_cannot_be_sent_as_it_is_raises_and_is_not_sent(connect: Connect, given: Any, said: str) -> None:
    either = connect(wire := Wire())

    with pytest.raises(ValueError, match=said):
        either(either.client.jobs.create(task="hello", **given))

    assert wire.requests == []


@pytest.mark.parametrize(("name", "args", "fields", "answer"), STARTING, ids=lambda v: v if type(v) is str else "")
def test_whatever_starts_a_run_carries_one_key_and_returns_that_run(
    connect: Connect, name: str, args: Any, fields: Any, answer: Any
) -> None:
    wire = Wire(DROPPED, said(answer, 202), problem(503), said(RUN))
    either = connect(wire)

    run = either(method(either.client, name)(*args, **fields, idempotency_key="my own"))

    assert (str(run.run_id), run.status) == (R1, "succeeded")
    assert [one.headers.get("Idempotency-Key") for one in wire.requests] == ["my own", "my own", None, None]
    assert wire.lines[2:] == [f"GET /v1/runs/{R1}"] * 2


@pytest.mark.parametrize(("name", "args", "fields"), UNSAFE, ids=lambda v: v if type(v) is str else "")
@pytest.mark.parametrize(
    ("failure", "error"), [(DROPPED, ServerUnreachable), (problem(503), Unavailable), (problem(429), TooManyRequests)]
)
def test_nothing_else_is_ever_repeated(
    connect: Connect, name: str, args: Any, fields: Any, failure: Any, error: type[Exception]
) -> None:
    wire = Wire(failure)
    either = connect(wire)

    with pytest.raises(error):
        either(method(either.client, name)(*args, **fields))

    assert len(wire.requests) == 1


def test_an_answer_that_is_no_is_not_asked_for_again(connect: Connect) -> None:
    wire = Wire(problem(403))

    with pytest.raises(Forbidden):
        (either := connect(wire))(either.client.jobs.get(J1))

    assert len(wire.requests) == 1


def test_gaps_grow_and_tries_end(connect: Connect, pauses: Pauses) -> None:
    wire = Wire(*[DROPPED] * 5)
    either = connect(wire)

    with pytest.raises(ServerUnreachable, match="http://oncue: connection reset"):
        either(either.client.jobs.get(J1))

    assert pauses.all == [0.1, 0.2, 0.4, 0.8]
    assert len(wire.requests) == 5


def test_gaps_are_spread_so_that_not_all_return_at_once(connect: Connect, pauses: Pauses) -> None:
    either = connect(Wire(DROPPED, said(JOB)))
    either.client.retry_policy = msgspec.structs.replace(either.client.retry_policy, chance=lambda: 0.0)

    either(either.client.jobs.get(J1))

    assert pauses.all == [0.05]


def test_no_gap_is_longer_than_five_seconds(connect: Connect, pauses: Pauses) -> None:
    either = connect(Wire(*[DROPPED] * 10, said(JOB)), retries=10, retry_for=1_000)

    either(either.client.jobs.get(J1))

    assert max(pauses.all) == 5.0


def test_tries_end_when_time_is_over(connect: Connect, pauses: Pauses) -> None:
    wire = Wire(*[DROPPED] * 4)
    either = connect(wire, retries=1_000, retry_for=1.0)

    with pytest.raises(ServerUnreachable):
        either(either.client.jobs.get(J1))

    assert pauses.now == pytest.approx(0.7)  # 0.8 s more would have been too much


def test_the_server_says_how_long_to_wait(connect: Connect, pauses: Pauses) -> None:
    either = connect(Wire(problem(429, headers={"Retry-After": "3"}), said(JOB)))

    either(either.client.jobs.get(J1))

    assert pauses.all == [3.1]


def test_a_wait_that_is_too_long_is_handed_to_the_caller(connect: Connect, pauses: Pauses) -> None:
    either = connect(Wire(problem(429, headers={"Retry-After": "3600"})))

    with pytest.raises(TooManyRequests) as refused:
        either(either.client.jobs.get(J1))

    assert refused.value.retry_after == 3600
    assert pauses.all == []


class Forgetful(BaseHTTPRequestHandler):
    """Keeps a job for each idempotency key it has not seen, and hangs up on the first three without a word."""

    protocol_version = "HTTP/1.1"
    server: "Store"

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        fields = msgspec.json.decode(self.rfile.read(length))
        key = self.headers["Idempotency-Key"]
        job = self.server.jobs.setdefault(
            key, {"job_id": str(UUID(int=len(self.server.jobs))), "status": "active", **fields}
        )
        self.server.asked += 1
        if self.server.asked <= 3:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        body = msgspec.json.encode(job)
        self.send_response(201)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


class Store(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Forgetful)
        self.jobs: dict[str, Any] = {}
        self.asked = 0


@contextmanager
def forgetful_server() -> Iterator[Store]:
    with Store() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_server_that_stores_and_hangs_up_ends_with_exactly_one_job(connect: Connect) -> None:
    with forgetful_server() as server:
        either = connect(url=f"http://127.0.0.1:{server.server_port}")

        job = either(either.client.jobs.create(task="hello"))

        assert (server.asked, len(server.jobs)) == (4, 1)
        assert (job.job_id, job.task) == (UUID(int=0), "hello")


def test_nobody_at_the_address_is_told_with_the_address(connect: Connect) -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        url = f"http://127.0.0.1:{door.getsockname()[1]}"
    either = connect(url=url)

    with pytest.raises(ServerUnreachable) as unreachable:
        either(either.client.jobs.get(J1))

    assert (unreachable.value.url, unreachable.value.sent) == (url, False)


def test_whether_the_server_may_have_got_it_is_told_of_all_tries(connect: Connect) -> None:
    refused = httpx2.ConnectError("refused")
    either = connect(Wire(refused, DROPPED, refused, refused), retries=3)

    with pytest.raises(ServerUnreachable) as unreachable:
        either(either.client.jobs.create(task="hello"))

    assert unreachable.value.sent


@pytest.mark.parametrize("lost", [DROPPED, problem(503)], ids=["dropped", "503"])
def test_what_is_gone_after_an_answer_was_lost_was_purged(connect: Connect, lost: Any) -> None:
    either = connect(wire := Wire(lost, problem(404)))

    either(either.client.jobs.purge(J1))

    assert wire.lines == [f"DELETE /v1/jobs/{J1}?purge=true"] * 2


@pytest.mark.parametrize("before", [(), (httpx2.ConnectError("refused"),), (problem(429),)], ids=["", "refused", "429"])
def test_what_was_never_there_is_not_purged(connect: Connect, before: Any) -> None:
    either = connect(Wire(*before, problem(404)))

    with pytest.raises(NotFound):
        either(either.client.jobs.purge(J1))


def test_what_is_gone_otherwise_is_not_there(connect: Connect) -> None:
    either = connect(Wire(DROPPED, problem(404)))

    with pytest.raises(NotFound):
        either(either.client.jobs.cancel(J1))


def test_an_answer_that_cannot_be_unpacked_is_none(connect: Connect) -> None:
    def garbled(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"Content-Encoding": "gzip"}, stream=Packed())

    either = connect(wire := Wire(*[garbled] * 3), retries=2)

    with pytest.raises(ServerUnreachable) as unreachable:
        either(either.client.jobs.get(J1))
    assert (len(wire.requests), unreachable.value.sent) == (3, True)


class Packed(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    """A body that says it is packed, and is not."""

    def __iter__(self) -> Iterator[bytes]:
        yield b"nonsense"

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"nonsense"


class Neighbourly(BaseHTTPRequestHandler):
    """Keeps connections open, and notes the one by which each request came."""

    protocol_version = "HTTP/1.1"
    came_by: ClassVar[list[int]] = []

    def do_GET(self) -> None:
        self.came_by.append(self.client_address[1])
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "13")
        self.end_headers()
        self.wfile.write(b'{"tasks": []}')

    def log_message(self, *args: Any) -> None:
        """Be silent."""


def test_a_forked_process_does_not_read_the_answers_of_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Neighbourly) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with Client(f"http://127.0.0.1:{server.server_port}", "key") as client, client._http:
            client.tasks.list()
            client.tasks.list()
            monkeypatch.setattr(os, "getpid", lambda: 0)
            client.tasks.list()
        server.shutdown()

    ours, again, theirs = Neighbourly.came_by
    assert ours == again != theirs
