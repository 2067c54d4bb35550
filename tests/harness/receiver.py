"""A receiver of webhooks that writes down all it gets, and now and then does not say so."""

from __future__ import annotations

import json
import random
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple, Self

Json = dict[str, Any]
TROUBLE = 0.15  # how likely a message is not acknowledged at its first arrival


class Post(NamedTuple):
    at: float
    target: str
    message: str  # its id
    body: Json
    acknowledged: bool


class Receiver(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, seed: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.posts: list[Post] = []
        self._chance = random.Random(seed)
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self.serve_forever, name="receiver", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/hook"

    def take(self, target: str, message: str, body: bytes) -> bool:
        """Whether it is acknowledged. Never twice refused: each refusal delays a message six times as long."""
        with self._lock:
            known = any(post.message == message for post in self.posts)
            acknowledged = known or self._chance.random() > TROUBLE
            self.posts.append(Post(time.time(), target, message, json.loads(body), acknowledged))
            return acknowledged

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Senders that are killed hang up."""


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.server.take(self.path, self.headers["webhook-id"], body):
            self.send_response(204)
            self.end_headers()
        elif len(body) % 2:
            self.send_response(500)
            self.end_headers()
        else:
            self.close_connection = True  # without an answer

    def log_message(self, *_: Any) -> None:
        """Says nothing."""
