"""Bytes on a socket, as they come: for what only the wire shows, like how a response ends."""

from __future__ import annotations

import json
import socket
from typing import Any, Self

from tests.processes.fleet import Fleet


class Wire:
    """One connection to a fleet's API, with a request sent."""

    def __init__(self, fleet: Fleet, method: str, path: str, body: Any = None, *, length: int | None = None) -> None:
        text = b"" if body is None else json.dumps(body).encode()
        self._socket = socket.create_connection(("127.0.0.1", fleet.port), timeout=20)
        self.received = b""
        head = [
            f"{method} {path} HTTP/1.1",
            "Host: oncue",
            f"Authorization: Bearer {fleet.key}",
            "Content-Type: application/json",
            f"Content-Length: {len(text) if length is None else length}",
        ]
        self.send("\r\n".join([*head, "", ""]).encode() + text)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, text: bytes) -> None:
        self._socket.sendall(text)

    def until(self, wanted: bytes) -> Self:
        """Read until these have come."""
        while wanted not in self.received:
            more = self._socket.recv(65536)
            assert more, f"it ended before {wanted!r} came: {self.received[-500:]!r}"
            self.received += more
        return self

    def to_the_end(self) -> bytes:
        """All there is. A reset is a ConnectionError."""
        while more := self._socket.recv(65536):
            self.received += more
        return self.received
