"""HTTP with heads of a bounded size: the parser by itself takes a request's headers without end, and keeps them."""

from __future__ import annotations

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LARGEST_HEAD = 64 * 1024  # bytes of a request's address and headers


class BoundedHeads(HttpToolsProtocol):
    """Whoever sends more is told 400, and cut off."""

    _in_head = True
    _received = 0  # bytes of a head that is not complete

    def data_received(self, data: bytes) -> None:
        if self._in_head:
            self._received += len(data)
        super().data_received(data)
        if self._in_head and self._received > LARGEST_HEAD and not self.transport.is_closing():
            self.send_400_response(f"the address and the headers have more than {LARGEST_HEAD} bytes: send less")

    def on_headers_complete(self) -> None:
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > LARGEST_HEAD:
            raise httptools.HttpParserError("the head is too large")  # the caller of the parser says 400
        self._in_head, self._received = False, 0
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._in_head = True
        super().on_message_complete()
