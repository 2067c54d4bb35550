"""Stand-ins for the parts of a server: one that says what it was told to, and one that keeps jobs by their keys."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

Said = tuple[int, Any]


class LateLog(str):
    """A log of which a part is not stored yet."""

    __slots__ = ()


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
    disable_nagle_algorithm = True  # an answer is written in two parts, and the second would wait 40 ms for the first
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
        if isinstance(said, LateLog):
            self.send_header("Log-Delayed", "true")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815

    def log_message(self, *args: Any) -> None:
        pass


@contextmanager
def standing_in(standin: Standin, port: int = 0) -> Iterator[Standin]:
    handler = type("Bound", (Handler,), {"standin": standin})
    with ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        standin.url = f"http://127.0.0.1:{server.server_port}"
        yield standin
        server.shutdown()
        thread.join()
