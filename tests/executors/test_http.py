"""The built-in task `http`, against servers of our own on loopback."""

import asyncio
import gzip
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from ipaddress import IPv4Address, ip_address
from itertools import repeat
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest
from tests.certificates import self_signed

import oncue
from oncue.context import Context, RunInfo
from oncue.domain.addresses import NOT_CALLED, Address
from oncue.domain.errors import Invalid
from oncue.domain.instants import DAY, HOUR, SECOND, parse_instant
from oncue.executors import dialling
from oncue.executors import http as http_module
from oncue.executors.dialling import Resolve, resolve
from oncue.executors.http import http_task
from oncue.executors.port import TaskFailed
from oncue.settings import Settings
from oncue.tasks import Isolation

RUN, JOB = UUID("01890a5d-ac96-774b-bcce-b302099a8057"), UUID("01890a5d-ac96-774b-bcce-b302099a8058")
HERE, INSIDE = IPv4Address("127.0.0.1"), IPv4Address("127.0.0.2")
ALLOWING_HERE = Settings(http_allow=("127.0.0.1/32",))
AT_ONCE = 10  # seconds: a cancelled call that waits for its server would never be gone

Reply = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class NoReports:
    cancelled = False

    def write(self, text: str) -> None: ...

    def progress(self, stored: bytes) -> None: ...

    async def save(self, stored: bytes) -> None: ...


def context(attempt: int = 1) -> Context:
    return Context(RunInfo(RUN, JOB, "http", attempt, parse_instant("2030-01-02T03:04:05.678Z")), NoReports())


async def call(
    url: str,
    *,
    settings: Settings = ALLOWING_HERE,
    resolve: Resolve = resolve,
    ctx: Context | None = None,
    **payload: Any,
) -> Any:
    """As a worker does it: the payload goes through the task's schema first."""
    task = http_task(settings, resolve)
    return await task.function(ctx or context(), **task.arguments(msgspec.json.encode({"url": url, **payload})))


async def failure(url: str, **given: Any) -> TaskFailed:
    with pytest.raises(TaskFailed) as failed:
        await call(url, **given)
    return failed.value


class Server:
    """Keeps every request it gets as text, answers with `answer`, then does whatever `afterwards` does."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
        self.afterwards: Reply | None = None
        self.asked, self.left = asyncio.Event(), asyncio.Event()
        self.port = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def says(self, status: int, *headers: str, body: bytes = b"", length: bool = True) -> None:
        lines = [f"HTTP/1.1 {status} Whatever", *headers, *[f"Content-Length: {len(body)}"] * length]
        self.answer = "\r\n".join([*lines, "", ""]).encode("latin-1") + body

    def header(self, name: str) -> str | None:
        [request] = self.requests
        lines = [line.split(": ", 1) for line in request.partition("\r\n\r\n")[0].split("\r\n")[1:]]
        found = [value for key, value in lines if key.lower() == name.lower()]
        assert len(found) <= 1
        return found[0] if found else None

    @property
    def body(self) -> str:
        [request] = self.requests
        return request.partition("\r\n\r\n")[2]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            [length] = [int(line[16:]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length: ")] or [0]
            self.requests.append((head + await reader.readexactly(length)).decode())
            self.asked.set()
            writer.write(self.answer)
            if self.afterwards:
                await self.afterwards(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass
        finally:
            self.left.set()
            writer.close()

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def serving(
    reply: Reply, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    listening = await asyncio.start_server(reply, host, port, ssl=tls)
    try:
        yield listening.sockets[0].getsockname()[1]
    finally:
        listening.close()
        await listening.wait_closed()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server()
    async with AsyncExitStack() as stack:
        server.port = await stack.enter_async_context(serving(server.serve))
        stack.push_async_callback(server.end)
        yield server


def standing_for(*answers: Sequence[Address]) -> tuple[Resolve, list[str]]:
    """A resolver that gives these answers in turn, and the names it was asked for."""
    asked: list[str] = []

    async def resolve(host: str, port: int) -> Sequence[Address]:
        asked.append(host)
        return answers[len(asked) - 1]

    return resolve, asked


class TestTheRequest:
    @pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"])
    async def test_is_made_with_the_method_and_the_whole_target(self, server: Server, method: str) -> None:
        answer = await call(f"{server.url}/a%20b/ü?c=d&e", method=method)

        assert server.requests[0].startswith(f"{method} /a%20b/%C3%BC?c=d&e HTTP/1.1\r\n")
        assert answer == {"status": 200, "headers": {}, "body": "", "truncated": False}

    async def test_says_whose_it_is(self, server: Server) -> None:
        await call(server.url, ctx=context(attempt=3))

        expected = {
            "Host": f"127.0.0.1:{server.port}",
            "User-Agent": f"oncue/{oncue.__version__}",
            "Idempotency-Key": str(RUN),
            "Oncue-Run-Id": str(RUN),
            "Oncue-Job-Id": str(JOB),
            "Oncue-Attempt": "3",
            "Oncue-Scheduled-For": "2030-01-02T03:04:05.678Z",
        }
        assert {name: server.header(name) for name in expected} == expected

    @pytest.mark.parametrize(
        ("body", "sent", "kind"),
        [
            ("plain ü", "plain ü", "text/plain; charset=utf-8"),
            ("", "", "text/plain; charset=utf-8"),
            ({"a": [1, None]}, '{"a":[1,null]}', "application/json"),
            ([], "[]", "application/json"),
            (0, "0", "application/json"),
            (False, "false", "application/json"),
        ],
    )
    async def test_has_a_body_of_the_right_type(self, server: Server, body: Any, sent: str, kind: str) -> None:
        await call(server.url, method="POST", body=body)

        assert (server.body, server.header("Content-Type")) == (sent, kind)
        assert server.header("Content-Length") == str(len(sent.encode()))

    @pytest.mark.parametrize(("method", "length"), [("POST", "0"), ("PUT", "0"), ("PATCH", "0"), ("GET", None)])
    async def test_without_a_body_says_so_where_one_is_usual(self, server: Server, method: str, length: str) -> None:
        await call(server.url, method=method)

        assert (server.header("Content-Length"), server.header("Content-Type")) == (length, None)

    async def test_has_the_users_headers_in_place_of_ours(self, server: Server) -> None:
        given = {
            "idempotency-key": "mine",
            "USER-AGENT": "me",
            "content-type": "text/csv",
            "X-Token": " t\t€ ",
            "X-E": "",
        }
        await call(server.url, method="PUT", body="a,b", headers=given)

        assert server.header("Idempotency-Key") == "mine"
        assert server.header("User-Agent") == "me"
        assert server.header("Content-Type") == "text/csv"
        assert server.header("X-Token") == "t\t€"
        assert server.header("X-E") == ""
        assert server.header("Oncue-Run-Id") == str(RUN)

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            *(("X-A", "b\r\nX-C: d"), ("X-A", "b\nc"), ("X-A", "b\x00"), ("X-A", "b\x7f"), ("X-A\r\nX-B", "c")),
            *(("", "x"), ("X A", "b"), ("X:A", "b"), ("Ü", "b"), ("X-A\n", "b")),
            *(("Host", "evil"), ("hOST", "evil"), ("Content-Length", "0"), ("transfer-encoding", "chunked")),
            *(("Connection", "upgrade"), ("Accept-Encoding", "br"), ("Oncue-Run-Id", "x"), ("oncue-anything", "x")),
        ],
    )
    async def test_with_a_header_that_is_not_the_users_to_set_is_not_made(
        self, server: Server, name: str, value: str
    ) -> None:
        failed = await failure(server.url, headers={name: value})

        assert (failed.kind, failed.retry) == ("BadHeader", False)
        assert repr(name) in str(failed)
        assert server.requests == []

    @pytest.mark.parametrize(
        "payload",
        [
            *({}, {"url": 1}, {"url": "http://a", "method": "TRACE"}, {"url": "http://a", "method": "get"}),
            *({"url": "http://a", "headers": {"a": 1}}, {"url": "http://a", "verify": False}),
            *({"url": "http://a", "expect_status": each} for each in (99, 600, True, "200", [200, 1000])),
        ],
    )
    def test_that_does_not_fit_is_told_by_the_schema(self, payload: dict[str, Any]) -> None:
        with pytest.raises(Invalid):
            http_task(ALLOWING_HERE).arguments(msgspec.json.encode(payload))

    def test_is_made_in_the_loop_by_a_task_for_everybody(self) -> None:
        task = http_task(Settings())

        assert (task.name, task.isolation, task.is_async) == ("http", Isolation.LOOP, True)
        assert set(task.roles) == {"admin", "member"}
        assert task.arguments(b'{"url": "http://a"}')["headers"] == {}

    async def test_takes_no_proxy_from_the_environment(self, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, "http://127.0.0.1:1")

        assert (await call(server.url))["status"] == 200


class TestTheAnswer:
    @pytest.mark.parametrize(
        ("kind", "body", "value"),
        [
            ("application/json", b'{"a": [1, "\xc3\xbc"]}', {"a": [1, "ü"]}),
            ("Application/JSON; charset=utf-8", b"null", None),
            ("application/problem+json", b'"x"', "x"),
            ("application/json", b'{"a": ', '{"a": '),
            ("application/json", b"[" * 100_000, "[" * 100_000),
            ("application/json", b"", ""),
            ("application/jsonlines", b"1", "1"),
            ("text/html", b'{"a": 1}', '{"a": 1}'),
            ("text/plain", b"\xff\x00ok", "\ufffd\x00ok"),
        ],
    )
    async def test_is_read_as_what_it_says_it_is(self, server: Server, kind: str, body: bytes, value: Any) -> None:
        server.says(200, f"Content-Type: {kind}", body=body)

        answer = await call(server.url)

        assert (answer["body"], answer["truncated"]) == (value, False)

    async def test_keeps_the_few_headers_that_matter(self, server: Server) -> None:
        kept = ('ETag: "x"', "LOCATION: /new?a=b", "Last-Modified: then", "Content-Type: a/b")
        server.says(201, *kept, "Set-Cookie: c=d", "X-Other: e")

        answer = await call(server.url)

        assert answer["status"] == 201
        assert answer["headers"] == {
            "content-type": "a/b",
            "etag": '"x"',
            "location": "/new?a=b",
            "last-modified": "then",
        }

    @pytest.mark.parametrize(
        ("status", "expected"),
        [(200, None), (204, None), (299, None), (404, 404), (503, [200, 503]), (302, 302), (200, [200])],
    )
    async def test_with_an_expected_status_is_the_result(self, server: Server, status: int, expected: Any) -> None:
        server.says(status, length=status != 204)

        assert (await call(server.url, expect_status=expected))["status"] == status

    @pytest.mark.parametrize(
        ("status", "expected", "retry"),
        [
            *((300, None, True), (302, None, True), (400, None, False), (401, None, False), (404, None, False)),
            *((408, None, True), (409, None, True), (410, None, False), (425, None, True), (429, None, True)),
            *((499, None, False), (500, None, True), (503, None, True), (200, 201, True), (200, [], True)),
        ],
    )
    async def test_with_another_status_is_a_failure(
        self, server: Server, status: int, expected: Any, retry: bool
    ) -> None:
        server.says(status, body=b"sorry,\r\n\x00 not\tnow" + b"!" * 300)

        failed = await failure(f"{server.url}/a?token=secret", method="POST", expect_status=expected)

        assert (failed.kind, failed.retry, failed.after) == ("HttpStatus", retry, None)
        words = "sorry, \ufffd not now" + "!" * 184
        assert len(words) == 200
        assert str(failed) == f"POST {server.url}/a answered {status}: {words}"

    @pytest.mark.parametrize(
        ("headers", "after"),
        [
            (["Retry-After: 120"], 120 * SECOND),
            (["retry-after: 86401"], DAY),
            (["Retry-After: 999999999999"], DAY),
            (["Retry-After: 0"], None),
            (["Retry-After: -5"], None),
            (["Retry-After: 1.5"], None),
            (["Retry-After: soon"], None),
            ([f"Retry-After: {'9' * 5_000}"], None),
            (["Retry-After: Wed, 02 Jan 2030 04:00:00 GMT", "Date: Wed, 02 Jan 2030 03:00:00 GMT"], HOUR),
            (["Retry-After: Wed, 02 Jan 2031 04:00:00 GMT", "Date: Wed, 02 Jan 2030 03:00:00 GMT"], DAY),
            (["Retry-After: Wed, 02 Jan 2030 02:00:00 GMT", "Date: Wed, 02 Jan 2030 03:00:00 GMT"], None),
            (["Retry-After: Wed, 02 Jan 2030 04:00:00 GMT"], None),
            (["Retry-After: Wed, 02 Jan 2030 04:00:00 GMT", "Date: today"], None),
            (["Retry-After: Wed, 02 Jan 2030 04:00:00 -0000", "Date: Wed, 02 Jan 2030 03:00:00 GMT"], None),
        ],
    )
    async def test_may_ask_for_a_time(self, server: Server, headers: list[str], after: int | None) -> None:
        server.says(503, *headers)

        assert (await failure(server.url)).after == after

    async def test_that_points_elsewhere_is_not_followed(self, server: Server) -> None:
        server.says(307, f"Location: http://me:pw@127.0.0.1:{server.port}/inside?token=secret#x")

        failed = await failure(server.url)

        assert str(failed) == f"GET {server.url}/ answered 307, pointing to http://127.0.0.1:{server.port}/inside"
        assert len(server.requests) == 1

    async def test_that_breaks_off_is_a_failure(self, server: Server) -> None:
        server.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"

        failed = await failure(f"{server.url}/a?token=secret")

        assert (failed.kind, failed.retry) == ("HttpError", True)
        assert str(failed).startswith(f"GET {server.url}/a: ")
        assert "secret" not in str(failed)

    @pytest.mark.parametrize(
        "answer", [b"", b"220 smtp.example.org ESMTP\r\n", b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000]
    )
    async def test_that_is_no_http_is_a_failure(self, server: Server, answer: bytes) -> None:
        server.answer = answer

        assert (await failure(server.url)).kind == "HttpError"


class TestTheBody:
    CAPPED = Settings(http_allow=("127.0.0.1",), max_http_body_bytes=1_000)

    async def test_without_end_is_cut_and_the_connection_dropped(self, server: Server) -> None:
        async def forever(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            for piece in repeat(b"x" * 10_000):
                writer.write(piece)
                await writer.drain()

        server.says(200, length=False)
        server.afterwards = forever

        answer = await call(server.url, settings=self.CAPPED)

        assert (answer["body"], answer["truncated"]) == ("x" * 1_000, True)
        async with asyncio.timeout(AT_ONCE):
            await server.left.wait()

    @pytest.mark.parametrize(("size", "truncated"), [(1_000, False), (1_001, True)])
    async def test_is_cut_beyond_the_cap(self, server: Server, size: int, truncated: bool) -> None:
        server.says(200, "Content-Type: application/json", body=b'"' + b"x" * (size - 2) + b'"')

        answer = await call(server.url, settings=self.CAPPED)

        assert answer["truncated"] is truncated
        assert answer["body"] == ('"' + "x" * 999 if truncated else "x" * 998)

    async def test_that_was_cut_is_a_text_though_what_is_left_may_be_json(self, server: Server) -> None:
        server.says(200, "Content-Type: application/json", body=b"12345")

        answer = await call(server.url, settings=msgspec.structs.replace(ALLOWING_HERE, max_http_body_bytes=3))

        assert (answer["body"], answer["truncated"]) == ("123", True)

    @pytest.mark.parametrize("kind", ["gzip", "GZIP", "x-gzip"])
    async def test_that_was_packed_unasked_is_unpacked(self, server: Server, kind: str) -> None:
        server.says(200, f"Content-Encoding: {kind}", body=gzip.compress(b"y" * 1_000))

        answer = await call(server.url, settings=self.CAPPED)

        assert server.header("Accept-Encoding") == "identity"
        assert (answer["body"], answer["truncated"]) == ("y" * 1_000, False)

    async def test_that_is_a_bomb_is_unpacked_up_to_the_cap(
        self, server: Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        unpacked = watch_unpacking(monkeypatch)
        server.says(200, "Content-Encoding: gzip", body=gzip.compress(bytes(900_000)))  # 1,000 times as large unpacked

        answer = await call(server.url, settings=self.CAPPED)

        assert (answer["body"], answer["truncated"]) == ("\x00" * 1_000, True)
        assert sum(unpacked) == 1_001

    async def test_that_unpacks_to_nothing_for_ever_is_cut_too(self, server: Server) -> None:
        server.says(200, "Content-Encoding: gzip", body=gzip.compress(b"y") + b"x" * 1_000)

        answer = await call(server.url, settings=self.CAPPED)

        assert (answer["body"], answer["truncated"]) == ("y", True)

    @pytest.mark.parametrize("missing", [1, 8, 20])
    async def test_that_was_packed_and_breaks_off_is_marked_as_cut(self, server: Server, missing: int) -> None:
        server.says(200, "Content-Encoding: gzip", body=gzip.compress(b"y" * 1_000)[:-missing])

        answer = await call(server.url, settings=self.CAPPED)

        assert answer["truncated"]
        assert set(answer["body"]) <= {"y"}

    async def test_that_says_it_is_packed_and_is_empty_is_whole(self, server: Server) -> None:
        server.says(200, "Content-Encoding: gzip")

        assert (await call(server.url))["truncated"] is False

    async def test_that_only_says_it_is_packed_is_a_failure(self, server: Server) -> None:
        server.says(200, "Content-Encoding: gzip", body=b"plain")

        failed = await failure(server.url)

        assert failed.kind == "HttpError"
        assert "not valid gzip" in str(failed)

    @pytest.mark.parametrize("body", ["x" * 5_000, "ü" * 2_500, "\x00" * 5_000, '["' + "x" * 5_000 + '"]'])
    async def test_too_large_to_be_kept_is_cut_so_that_the_result_just_fits(self, server: Server, body: str) -> None:
        server.says(200, "Content-Type: application/json", body=body.encode())

        answer = await call(server.url, settings=msgspec.structs.replace(ALLOWING_HERE, max_result_bytes=3_000))

        assert 2_900 < len(msgspec.json.encode(answer)) <= 3_000
        assert body.startswith(answer["body"])
        assert answer["truncated"] is True


def watch_unpacking(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes every call of the unpacker gave."""
    sizes: list[int] = []
    real = http_module.zlib.decompressobj

    class Watched:
        def __init__(self, **given: Any) -> None:
            self._real = real(**given)

        def decompress(self, *given: Any) -> bytes:
            data: bytes = self._real.decompress(*given)
            sizes.append(len(data))
            return data

    monkeypatch.setattr(http_module.zlib, "decompressobj", Watched)
    return sizes


class TestTheAddress:
    async def test_that_is_written_out_is_refused_before_anything_is_dialled(self, server: Server) -> None:
        failed = await failure(f"{server.url}/?token=secret", settings=Settings())

        assert (failed.kind, failed.retry) == ("AddressRefused", False)
        assert str(failed) == "payload.url: 127.0.0.1 is loopback, and http_allow does not list it"
        assert server.requests == []

    async def test_that_a_name_stands_for_is_refused_when_dialled(self, server: Server) -> None:
        resolve, asked = standing_for([HERE])
        failed = await failure(f"http://nice.example:{server.port}/", settings=Settings(), resolve=resolve)

        assert (failed.kind, failed.retry) == ("AddressRefused", False)
        assert str(failed) == f"nice.example {NOT_CALLED}"
        assert (asked, server.requests) == (["nice.example"], [])

    @pytest.mark.parametrize("name", ["localhost", "a.localhost", "metadata.google.internal"])
    async def test_that_a_name_is_known_to_stand_for_is_not_told(self, name: str) -> None:
        failed = await failure(f"http://{name}/", settings=Settings())

        assert str(failed) == f"payload.url: the host of the URL {NOT_CALLED}"

    async def test_is_asked_for_once_and_dialled_as_it_was_judged(
        self, server: Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The name stands for something else a moment later: nobody may look again."""
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: pytest.fail("resolved a second time"))
        resolve, asked = standing_for([HERE], [INSIDE])

        async with serving(server.serve, str(INSIDE), server.port):
            await call(f"http://nice.example:{server.port}/", resolve=resolve)
            assert asked == ["nice.example"]
            assert server.header("Host") == f"nice.example:{server.port}"

            failed = await failure(f"http://nice.example:{server.port}/", resolve=resolve)

        assert failed.kind == "AddressRefused"
        assert (len(asked), len(server.requests)) == (2, 1)

    async def test_that_is_refused_is_passed_over_for_one_that_is_not(self, server: Server) -> None:
        reached: list[str] = []

        async def note(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            reached.append("inside")
            writer.close()

        resolve, _ = standing_for([INSIDE, ip_address("::1"), HERE])
        async with serving(note, str(INSIDE), server.port):
            assert (await call(f"http://nice.example:{server.port}/", resolve=resolve))["status"] == 200

        assert reached == []

    async def test_that_comes_first_is_dialled_first(self, server: Server) -> None:
        resolve, _ = standing_for([HERE, INSIDE])  # nobody listens inside
        both = Settings(http_allow=("127.0.0.0/30",))

        assert (await call(f"http://nice.example:{server.port}/", settings=both, resolve=resolve))["status"] == 200

    async def test_where_nobody_answers_is_passed_over_for_the_next(self, server: Server) -> None:
        resolve, _ = standing_for([INSIDE, HERE])
        both = Settings(http_allow=("127.0.0.0/30",))

        assert (await call(f"http://nice.example:{server.port}/", settings=both, resolve=resolve))["status"] == 200

    async def test_where_nobody_answers_is_a_failure_without_secrets(self) -> None:
        with socket.socket() as taken:  # bound and not listening: nobody else gets the port, nobody answers
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
            failed = await failure(f"http://127.0.0.1:{port}/a?token=secret")

        assert (failed.kind, failed.retry) == ("HttpError", True)
        assert str(failed) == f"GET http://127.0.0.1:{port}/a: Connection refused"

    async def test_of_localhost_may_be_dialled_where_it_is_allowed(self, server: Server) -> None:
        assert (await call(f"http://localhost:{server.port}/"))["status"] == 200
        assert server.header("Host") == f"localhost:{server.port}"

    async def test_of_an_unknown_name_is_a_failure(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def unknown(*_: Any, **__: Any) -> None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

        monkeypatch.setattr(socket, "getaddrinfo", unknown)

        failed = await failure("http://nosuch.example/")

        assert (failed.kind, failed.retry) == ("HttpError", True)
        assert str(failed) == (
            "GET http://nosuch.example/: the host name nosuch.example cannot be resolved: Name or service not known"
        )


class TestTime:
    async def test_a_slow_server_is_left_at_once_when_the_run_is_cancelled(self, server: Server) -> None:
        server.answer = b""
        server.afterwards = until_the_other_end_closes
        calling = asyncio.create_task(call(server.url))
        await server.asked.wait()

        await cancelled_at_once(calling, server.left)

    async def test_a_slow_body_is_left_at_once_when_the_run_is_cancelled(self, server: Server) -> None:
        server.says(200, "Content-Length: 10", body=b"half", length=False)
        server.afterwards = until_the_other_end_closes
        calling = asyncio.create_task(call(server.url))
        await server.asked.wait()

        await cancelled_at_once(calling, server.left)

    async def test_a_server_silent_in_tls_is_left_at_once_when_the_run_is_cancelled(self) -> None:
        greeted, left = asyncio.Event(), asyncio.Event()

        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readexactly(1)
            greeted.set()
            await until_the_other_end_closes(reader, writer)
            left.set()
            writer.close()

        async with serving(silent) as port:
            calling = asyncio.create_task(call(f"https://127.0.0.1:{port}/"))
            await greeted.wait()
            await cancelled_at_once(calling, left)

    async def test_a_name_that_is_not_found_out_is_given_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def never(host: str, port: int) -> Sequence[Address]:
            await asyncio.Event().wait()
            return []

        monkeypatch.setattr(dialling, "CONNECT_WITHIN", 0.01)

        failed = await failure("http://nice.example/", resolve=never)

        assert (failed.kind, failed.retry) == ("HttpError", True)
        assert "no connection within" in str(failed)

    async def test_a_silent_server_is_given_up(self, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(http_module, "LONGEST_SILENCE", 0.01)
        server.answer = b""
        server.afterwards = until_the_other_end_closes

        failed = await failure(server.url)

        assert (failed.kind, failed.retry) == ("HttpError", True)
        assert "no data was sent or received" in str(failed)


async def until_the_other_end_closes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while await reader.read(10_000):
        pass


async def cancelled_at_once(calling: asyncio.Task[Any], left: asyncio.Event) -> None:
    calling.cancel()
    async with asyncio.timeout(AT_ONCE):
        with pytest.raises(asyncio.CancelledError):
            await calling
        await left.wait()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return self_signed("nice.example", tmp_path_factory.mktemp("tls"))


@pytest.fixture
async def tls_server(certificate: Path) -> AsyncIterator[Server]:
    server = Server()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    async with serving(server.serve, tls=context) as server.port:
        yield server
        await server.end()


@pytest.fixture
def trusted(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    http_module._trust.cache_clear()
    yield
    http_module._trust.cache_clear()


class TestTls:
    @pytest.mark.usefixtures("trusted")
    async def test_goes_by_the_name_and_not_by_the_address(self, tls_server: Server) -> None:
        resolve, _ = standing_for([HERE])

        assert (await call(f"https://nice.example:{tls_server.port}/", resolve=resolve))["status"] == 200
        assert tls_server.header("Host") == f"nice.example:{tls_server.port}"

    @pytest.mark.usefixtures("trusted")
    async def test_refuses_a_server_with_the_certificate_of_another(self, tls_server: Server) -> None:
        resolve, _ = standing_for([HERE])

        failed = await failure(f"https://other.example:{tls_server.port}/", resolve=resolve)

        assert failed.kind == "HttpError"
        assert "other.example" in str(failed).partition(": ")[2]
        assert tls_server.requests == []

    async def test_refuses_a_certificate_that_nobody_vouches_for(self, tls_server: Server) -> None:
        resolve, _ = standing_for([HERE])

        failed = await failure(f"https://nice.example:{tls_server.port}/", resolve=resolve)

        assert failed.kind == "HttpError"
        assert "self-signed certificate" in str(failed)
        assert tls_server.requests == []
