"""The synchronous client. `async_client.py` has the asynchronous one; `resources.py` has the calls of both."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial
from threading import Event as Never
from types import TracebackType
from typing import Any, TypeVar

import httpx2

from oncue.client.address import find_address
from oncue.client.asking import Exchange, Items, Lost, Pause, RetryPolicy, Stream, ask, seconds_now
from oncue.client.call import Answer, Call, TimeLimit, seconds_of
from oncue.client.events import LONGEST_SILENCE, Event, Following, events
from oncue.client.naming import JobRef, RunRef
from oncue.client.resources import Calls
from oncue.client.sending import answer_of, http_options, lost, request_of
from oncue.client.snapshots import Job, Run, bind
from oncue.clock import SystemClock
from oncue.overriding import keep_inside

T = TypeVar("T")


class Client(Calls["Client"]):
    """Calls a server; threads and forked processes may share it. Close it, or use it in a `with` block.

    `timeout` is the time limit of each answer: seconds, "10s" or a timedelta. Calls that are safe to repeat are retried
    when no answer arrives, or a temporary refusal: at most `retries` times and for `retry_for`.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        timeout: TimeLimit = 10.0,
        *,
        retries: int = 4,
        retry_for: TimeLimit = 30.0,
        context: str | None = None,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        super().__init__(self)
        keep_inside(url)
        self._given_url = url
        address, seconds = find_address(url, key, context), seconds_of(timeout)
        self.url = address.url
        self.retry_policy = RetryPolicy(
            address.url, seconds, retries, seconds_of(retry_for), seconds_now(SystemClock())
        )
        self._open = partial(httpx2.Client, **http_options(address, seconds), transport=transport)
        self._opened = os.getpid(), self._open()

    def ask(self, call: Call[T]) -> T:
        """Send one call and return its result."""
        return self.send(ask(call, self.retry_policy))

    def bound(self, value: Any) -> Any:
        """Return data of jobs and runs as snapshots with methods, and other values as they are."""
        return bind(value, self, Job, Run)

    def events(
        self,
        last_event_id: str | None = None,
        *,
        job: JobRef | None = None,
        run: RunRef | None = None,
        types: Sequence[str] | None = None,
        pulse: bool = False,
    ) -> Iterator[Event]:
        """Yield the events of your jobs and runs as they happen, without an end.

        Narrow the stream to one job or run, or to `types` of events: `run`, `job`, `dead`, `worker`, `queue`,
        `pulse`. With `pulse` the numbers of the last second come as well.
        After an interruption the stream reconnects and resumes. A `resync` event says that events may be missing.
        Raises `ServerUnreachable` after `retries` failures in a row.
        """
        call = self.send(events(self, job, run, types, pulse=pulse))
        place, params = Following(call, last_event_id, self.retry_policy), dict(call.params) or None
        while True:
            keep_inside(self._given_url)
            try:
                with self._http.sse(
                    call.path, params=params, headers=place.headers(), timeout=LONGEST_SILENCE
                ) as stream:
                    if stream.response.is_success:
                        yield from place.connected(stream.response.headers.get("Content-Type", ""))
                        for one in stream:
                            yield from place.heard(one.event, one.data, one.id)
                        gap = place.broken("the stream ended")
                    else:
                        stream.response.read()
                        gap = place.refused(answer_of(stream.response))
            except httpx2.RequestError as broken:
                gap = place.broken(lost(broken).why)
            self._pause(gap)

    def send(self, exchange: Exchange[T]) -> T:
        """Take the steps of an exchange, and return its result."""
        reply: Answer | Lost | None = None
        while True:
            try:
                step = exchange.send(reply)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]  # what a generator returns has no type
            reply = self._take(step)

    def stream(self, stream: Stream[T]) -> Iterator[T]:
        """Take the steps of a stream, and yield its items."""
        reply: Answer | Lost | None = None
        while True:
            try:
                step = stream.send(reply)
            except StopIteration:
                return
            if isinstance(step, Items):
                yield from step.items
                reply = None
            else:
                reply = self._take(step)

    def _take(self, step: Call[Any] | Pause) -> Answer | Lost | None:
        if isinstance(step, Pause):
            self._pause(step.seconds)
            return None
        return self._send(step)

    def _send(self, call: Call[Any]) -> Answer | Lost:
        keep_inside(self._given_url)
        try:
            return answer_of(self._http.request(**request_of(call)))
        except httpx2.RequestError as error:
            return lost(error)

    @property
    def _http(self) -> httpx2.Client:
        """The connections of this process: on one shared with the parent of a fork, each reads the other's answers."""
        if self._opened[0] != os.getpid():
            self._opened = os.getpid(), self._open()
        return self._opened[1]

    def _pause(self, seconds: float) -> None:
        Never().wait(seconds)

    def close(self) -> None:
        """Close the connections. Leaving the `with` block does it, too."""
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
