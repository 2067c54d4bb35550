"""The asyncio client. `client.py` has the synchronous one; `resources.py` has the calls of both."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
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
from oncue.client.snapshots import AsyncJob, AsyncRun, bind
from oncue.clock import SystemClock
from oncue.domain.instants import SECOND, Duration
from oncue.overriding import keep_inside

T = TypeVar("T")


class AsyncClient(Calls["AsyncClient"]):
    """Calls a server; belongs to one event loop. Close it, or use it in an `async with` block.

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
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        super().__init__(self)
        keep_inside(url)
        self._given_url = url
        address, seconds = find_address(url, key, context), seconds_of(timeout)
        self.url = address.url
        self._clock = SystemClock()
        self.retry_policy = RetryPolicy(address.url, seconds, retries, seconds_of(retry_for), seconds_now(self._clock))
        self._http = httpx2.AsyncClient(**http_options(address, seconds), transport=transport)

    async def ask(self, call: Call[T]) -> T:
        """Send one call and return its result."""
        return await self.send(ask(call, self.retry_policy))

    def bound(self, value: Any) -> Any:
        """Return data of jobs and runs as snapshots with methods, and other values as they are."""
        return bind(value, self, AsyncJob, AsyncRun)

    async def events(
        self,
        last_event_id: str | None = None,
        *,
        job: JobRef | None = None,
        run: RunRef | None = None,
        types: Sequence[str] | None = None,
        pulse: bool = False,
    ) -> AsyncIterator[Event]:
        """Yield the events of your jobs and runs as they happen, without an end.

        Narrow the stream to one job or run, or to `types` of events: `run`, `job`, `dead`, `worker`, `queue`,
        `pulse`. With `pulse` the numbers of the last second come as well.
        After an interruption the stream reconnects and resumes. A `resync` event says that events may be missing.
        Raises `ServerUnreachable` after `retries` failures in a row.
        """
        call = await self.send(events(self, job, run, types, pulse=pulse))
        place, params = Following(call, last_event_id, self.retry_policy), dict(call.params) or None
        while True:
            keep_inside(self._given_url)
            try:
                async with self._http.sse(
                    call.path, params=params, headers=place.headers(), timeout=LONGEST_SILENCE
                ) as stream:
                    if stream.response.is_success:
                        for event in place.connected(stream.response.headers.get("Content-Type", "")):
                            yield event
                        async for one in stream:
                            for event in place.heard(one.event, one.data, one.id):
                                yield event
                        gap = place.broken("the stream ended")
                    else:
                        await stream.response.aread()
                        gap = place.refused(answer_of(stream.response))
            except httpx2.RequestError as broken:
                gap = place.broken(lost(broken).why)
            await self._pause(gap)

    async def send(self, exchange: Exchange[T]) -> T:
        """Take the steps of an exchange, and return its result."""
        reply: Answer | Lost | None = None
        while True:
            try:
                step = exchange.send(reply)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]  # what a generator returns has no type
            reply = await self._take(step)

    async def stream(self, stream: Stream[T]) -> AsyncIterator[T]:
        """Take the steps of a stream, and yield its items."""
        reply: Answer | Lost | None = None
        while True:
            try:
                step = stream.send(reply)
            except StopIteration:
                return
            if isinstance(step, Items):
                for item in step.items:
                    yield item
                reply = None
            else:
                reply = await self._take(step)

    async def _take(self, step: Call[Any] | Pause) -> Answer | Lost | None:
        if isinstance(step, Pause):
            await self._pause(step.seconds)
            return None
        return await self._send(step)

    async def _send(self, call: Call[Any]) -> Answer | Lost:
        keep_inside(self._given_url)
        try:
            return answer_of(await self._http.request(**request_of(call)))
        except httpx2.RequestError as error:
            return lost(error)

    async def _pause(self, seconds: float) -> None:
        await self._clock.sleep(Duration(round(seconds * SECOND)))

    async def close(self) -> None:
        """Close the connections. Leaving the `async with` block does it, too."""
        await self._http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
