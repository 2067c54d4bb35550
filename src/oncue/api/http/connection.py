"""One HTTP connection, with heads of bounded size and a timeout for every wait, set by the connection's queue."""

from __future__ import annotations

import asyncio
import resource
from typing import Any, Protocol, cast

import httptools
from starlette.types import Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

LARGEST_HEAD = 64 * 1024  # bytes of a request's address and headers
MOST_HEADERS = 200
MOST_CRUMBS = 4_000  # pieces of a body with fewer than CRUMB bytes each: each costs the loop as much as a large one
CRUMB = 64
MOST_WAITING = 100  # requests of one connection that wait until those before them are answered
SMALL = 64 * 1024  # bytes of a body that is copied behind its head
MOST_IGNORED = 64 * 1024 * 1024  # bytes of a refused request that are still read and discarded

NAME = "oncue.connection"  # the key in a request's scope
LAST = b"HTTP/1.1 %b\r\nconnection: close\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n\r\n%b"
TOO_MANY = b"Too many connections. Retry in 1 second."
FULL = LAST % (b"503 Service Unavailable\r\nretry-after: 1", len(TOO_MANY), TOO_MANY)

HEAD_WITHIN = (
    10.0  # seconds from connecting, or a next request's first byte, to the end of the head; more bytes do not extend it
)
IDLE_FOR = 60.0  # seconds between two requests of a caller with a valid key
READ_WITHIN = 30.0  # seconds within which the caller must read some of what was sent
LAST_REQUEST = 0.5  # seconds for a request that is on its way when the server is told to stop
LINGER = 2.0  # seconds for the caller to send the rest of a refused request, and to read the answer
TICK = 0.1  # seconds between two checks, as in uvicorn
MAX_CONNECTIONS = 5_000  # connections at a time, if the descriptor limit allows it
KEPT_FREE = 256  # descriptors for the database, workers and files


def known(scope: Scope) -> None:
    """Record that the request has a valid key: from now on its connection is authenticated."""
    connection = scope.get(NAME)
    if connection is not None:
        connection.known = True


class Connection(HttpToolsProtocol):
    """Answers 400 to a head that is too large and closes the connection. An answer sent before the body is complete is
    the last one on its connection: the rest of the body is not needed, and may be endless.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.known = False
        self._all = cast(Connections, server_state)
        self._queue: Queue | None = None
        self._in_head = True
        self._received = 0  # bytes of an incomplete head
        self._keep_alive = False  # what the request wants, while its body is incomplete
        self._crumbs = 0  # of the body that comes
        self._ignored = 0
        self._unread = 0  # bytes waiting for a caller that does not read

    # ----------------------------------------------------------------------------------------------------- what comes

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self.flow = _Flow(self)
        if self._all.make_room():
            self._wait_in(self._all.head)
            if self._all.stopping:
                self.shutdown()
        else:
            transport.write(FULL)
            self._hang_up()

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait_in(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._queue is self._all.leaving:
            self._ignored += len(data)
            if self._ignored > MOST_IGNORED:
                self.flow.pause_reading()
            return
        if self._in_head:
            self._received += len(data)
        super().data_received(data)
        if self.transport.is_closing() or self._queue is self._all.leaving:
            return
        if not self._in_head:
            self._expect_the_rest()
        elif self._received > LARGEST_HEAD:
            self.send_400_response(f"The URL and the headers exceed {LARGEST_HEAD} bytes.")
        elif self._received and self._queue is self._all.idle:
            self._wait_in(self._all.head)

    def on_headers_complete(self) -> None:
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > LARGEST_HEAD:
            raise httptools.HttpParserError("the head is too large")  # the caller of the parser says 400
        if len(self.headers) > MOST_HEADERS:
            raise httptools.HttpParserError("there are too many headers")
        self._in_head, self._received, self._crumbs = False, 0, 0
        if self._queue is not self._all.stalled:
            self._wait_in(None)
        self.scope[NAME] = self  # type: ignore[literal-required]  # the key check uses it
        super().on_headers_complete()
        if self._all.stopping:
            self.cycle.keep_alive = False
        if len(self.pipeline) > MOST_WAITING:
            raise httptools.HttpParserError("too many requests wait for their answers")

    def on_body(self, body: bytes) -> None:
        self._crumbs += len(body) < CRUMB
        if self._crumbs > MOST_CRUMBS:
            raise httptools.HttpParserError("the body comes in too many small pieces")
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_head = True
        if self.cycle.transport is not self.transport and not self.cycle.response_started:
            self.cycle.transport, self.cycle.keep_alive = self.transport, self._keep_alive
        super().on_message_complete()

    def _expect_the_rest(self) -> None:
        """Close the connection after an answer that is sent before the body is complete."""
        if self.cycle.transport is self.transport:
            self._keep_alive = self.cycle.keep_alive
            self.cycle.transport, self.cycle.keep_alive = cast(asyncio.Transport, _LastAnswer(self)), False

    # ------------------------------------------------------------------------------------------------------ what goes

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self._queue is self._all.leaving:
            return
        if self.transport.is_closing():
            self._wait_to_be_read()
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        elif self._in_head:
            self._wait_in(self._all.idle if self.known else self._all.head)

    def send_400_response(self, msg: str) -> None:
        if self.pipeline:  # its answer would come before those to the requests that wait
            self.drop()
            return
        if self.cycle is not None and not self.cycle.response_complete:  # its answer can no longer be told from this
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.write(LAST % (b"400 Bad Request", len(msg), msg.encode("ascii")))
        self.linger()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._queue is None:
            self._wait_to_be_read()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._queue is self._all.stalled and not self.transport.is_closing():
            self._wait_in(None)

    # ------------------------------------------------------------------------------------------------------- the end

    def shutdown(self) -> None:
        """Make the answer in progress the last one. An idle connection may ask once more, for a moment: a request that
        is on its way would be lost, and not every caller can repeat it.
        """
        self._keep_alive = False
        if self.cycle is None or self.cycle.response_complete:
            self.loop.call_later(LAST_REQUEST, super().shutdown)
        else:
            super().shutdown()

    def linger(self) -> None:
        """Send nothing more, and discard what still arrives, within limits. Closing at once would take back the answer
        in transit; and callers that send everything before they read would see a broken connection instead of it.
        """
        self._wait_in(self._all.leaving)
        if not self.transport.is_closing():
            self.transport.write_eof()
            self.flow.resume_reading()

    def overdue(self) -> None:
        if self._queue in (self._all.head, self._all.idle):
            self._hang_up()
        elif self._queue is self._all.stalled and self.transport.get_write_buffer_size() < self._unread:
            self._wait_to_be_read()
        else:
            self.drop()

    def drop(self) -> None:
        self._wait_in(None)
        self.connections.discard(self)
        self.transport.abort()

    def _hang_up(self) -> None:
        self.transport.close()
        self._wait_to_be_read()

    def _wait_to_be_read(self) -> None:
        self._unread = self.transport.get_write_buffer_size()
        self._wait_in(self._all.stalled)

    def _wait_in(self, queue: Queue | None) -> None:
        if self._queue is not None:
            self._queue.until.pop(self, None)
        self._queue = queue
        if queue is not None:
            self._all.enter(queue, self)


class _Flow(FlowControl):
    """Reads nothing while requests wait for the one before them: many come in one read, and each needs memory."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection.transport)
        self._waiting = connection.pipeline

    def resume_reading(self) -> None:
        if not self._waiting:
            super().resume_reading()


class _LastAnswer:
    """The transport for a connection's last answer, after which nothing is read."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.write = connection.transport.write
        self.is_closing = connection.transport.is_closing
        self.close = connection.linger


def write_once(send: Send) -> None:
    """Have the head and the body of the next answer, which has a body, written in one system call if it is small."""
    cycle = getattr(send, "__self__", None)
    if isinstance(cycle, RequestResponseCycle):
        cycle.transport = cast(asyncio.Transport, _OneWrite(cycle.transport))


class _OneWrite:
    """A transport that keeps the head of an answer until its body comes."""

    __slots__ = ("_head", "_write", "close", "is_closing")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._head = b""
        self._write = transport.write
        self.is_closing = transport.is_closing
        self.close = transport.close

    def write(self, data: bytes) -> None:
        if not self._head:
            self._head = data
        elif len(data) <= SMALL:
            self._write(self._head + data)
        else:
            self._write(self._head)
            self._write(data)


class Guest(Protocol):
    """A connection, as the queues see it."""

    def overdue(self) -> None:
        """Handle its timeout: leave the queue, or stay because the connection has made progress."""
        ...

    def drop(self) -> None:
        """Close at once, and discard unsent data."""
        ...


class Queue:
    """Connections that wait for the same event with the same timeout, the longest waiting first."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.until: dict[Guest, float] = {}


class Connections(ServerState):
    """State that all connections of a server share."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most
        self.stopping = False
        self.head = Queue(HEAD_WITHIN)  # unauthenticated, or within a head
        self.leaving = Queue(LINGER)  # refused, closing after a pause
        self.stalled = Queue(READ_WITHIN)  # does not read what we send
        self.idle = Queue(IDLE_FOR)  # authenticated, between two requests
        self._now = 0.0

    def enter(self, queue: Queue, guest: Guest) -> None:
        queue.until[guest] = self._now + queue.seconds

    def look(self) -> None:
        """Call `overdue` on every connection whose time is over. Time counts in calls of this method: a process that
        was too busy for its connections does not time them out for it.
        """
        self._now = now = self._now + TICK
        for queue in (self.head, self.leaving, self.stalled, self.idle):
            while queue.until:
                first = next(iter(queue.until))
                if queue.until[first] > now:
                    break
                first.overdue()

    def make_room(self) -> bool:
        """Whether the newest connection fits. If not, drop others, unauthenticated ones first."""
        while len(self.connections) > self.most:
            for queue in (self.head, self.leaving, self.stalled, self.idle):
                if queue.until:
                    next(iter(queue.until)).drop()
                    break
            else:
                return False
        return True


def most_connections() -> int:
    """As many as the descriptor limit allows, minus those that the process needs itself."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return min(MAX_CONNECTIONS, descriptors - min(KEPT_FREE, descriptors // 2))
