"""A proxy that serves a server below a path, and takes that path off, as nginx does."""

import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import urlsplit

HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding"}


class _Proxy(BaseHTTPRequestHandler):
    def __init__(self, prefix: str, target: str, *arguments: object) -> None:
        self._prefix = prefix
        self._target = target
        super().__init__(*arguments)

    def _pass_on(self) -> None:
        if not self.path.startswith(f"{self._prefix}/"):
            return self.send_error(404)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        upstream = http.client.HTTPConnection(self._target)
        try:
            upstream.request(self.command, self.path.removeprefix(self._prefix), body, dict(self.headers))
            self._answer(upstream.getresponse())
        except ConnectionError:  # the browser has closed its side
            self.close_connection = True
        finally:
            upstream.close()

    def _answer(self, answer: http.client.HTTPResponse) -> None:
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in HOP_BY_HOP:
                self.send_header(name, value)
        self.end_headers()
        while part := answer.read1():
            self.wfile.write(part)

    do_GET = do_POST = do_DELETE = do_PATCH = do_PUT = _pass_on  # noqa: N815 - the names that http.server calls

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def proxy(target: str, prefix: str) -> Iterator[str]:
    """Its address, with the prefix."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Proxy, prefix, urlsplit(target).netloc))
    server.daemon_threads = True
    with server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}{prefix}"
        server.shutdown()
