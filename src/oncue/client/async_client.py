"""The asyncio client. `client.py` has the synchronous one, with the same resources and methods."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from functools import wraps
from types import TracebackType
from typing import Any, Generic, ParamSpec, TypeVar

import httpx2

from oncue.client import (
    about,
    bulk,
    dead_letters,
    error_groups,
    fleet,
    jobs,
    keys,
    notifications,
    overview,
    runs,
    schedules,
    users,
)
from oncue.client.address import find_address
from oncue.client.asking import (
    LOG_POLL_INTERVAL,
    Exchange,
    LogFollowing,
    Lost,
    Pause,
    RetryPolicy,
    ask,
    seconds_now,
    wait,
)
from oncue.client.call import Answer, Call, Page, following
from oncue.client.events import LONGEST_SILENCE, Event, Following, events
from oncue.client.sending import answer_of, http_options, lost, request_of
from oncue.clock import SystemClock
from oncue.domain.instants import SECOND, Duration
from oncue.shapes.runs import Run

P = ParamSpec("P")
T = TypeVar("T")


class Resource:
    """One group of calls of a client."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client


class Method(Generic[P, T]):
    """A method that sends one call and returns its result."""

    def __init__(self, build: Callable[P, Call[T]]) -> None:
        self._build = build

    def __get__(self, part: Resource, owner: type[Resource]) -> Callable[P, Coroutine[Any, Any, T]]:
        @wraps(self._build)
        async def method(*args: P.args, **kwargs: P.kwargs) -> T:
            return await part._client.ask(self._build(*args, **kwargs))

        return method


class PagedMethod(Generic[P, T]):
    """A method that iterates over a list and fetches its pages as needed."""

    def __init__(self, build: Callable[P, Call[Page[T]]]) -> None:
        self._build = build

    def __get__(self, part: Resource, owner: type[Resource]) -> Callable[P, AsyncIterator[T]]:
        @wraps(self._build)
        def method(*args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
            return part._client.through(self._build(*args, **kwargs))

        return method


class Jobs(Resource):
    create = Method(jobs.create)
    create_many = Method(jobs.create_many)
    put = Method(jobs.put)
    apply = Method(jobs.apply)
    get = Method(jobs.show)
    get_by_key = Method(jobs.show_by_key)
    list = PagedMethod(jobs.page)
    page = Method(jobs.page)
    edit = Method(jobs.edit)
    preview = Method(jobs.preview)
    versions = PagedMethod(jobs.versions_page)
    pause = Method(jobs.pause)
    resume = Method(jobs.resume)
    cancel = Method(jobs.cancel)
    purge = Method(jobs.purge)
    run_now = Method(jobs.run_now)
    status = Method(jobs.status)
    stats = Method(jobs.stats)
    runs = PagedMethod(jobs.runs_page)
    occurrences = PagedMethod(jobs.occurrences_page)
    occurrence_heat = Method(jobs.occurrence_heat)
    explain = Method(jobs.explain)
    backfill = Method(jobs.backfill)


class Runs(Resource):
    list = PagedMethod(runs.page)
    page = Method(runs.page)
    get = Method(runs.show)
    logs = Method(runs.logs)
    log_parts = Method(runs.log_parts)
    result = Method(runs.result)
    result_link = Method(runs.result_link)
    payload = Method(runs.payload)
    payload_link = Method(runs.payload_link)
    cancel = Method(runs.cancel)
    retry = Method(runs.retry)
    explain = Method(runs.explain)

    async def wait(self, run_id: str, timeout: float | None = None, seen: Callable[[Run], None] | None = None) -> Run:
        """Wait until a run is final, and return it. Raises `WaitTimeout` after `timeout` seconds; the run continues.

        `seen` is called with the run at each poll, for instance to show progress.
        """
        return await self._client.send(wait(run_id, timeout, seen, self._client.retry_policy))

    async def follow_logs(self, run_id: str, *, tail: int | None = None) -> AsyncIterator[str]:
        """Yield the log of a run as it grows, until the run has ended; with `tail`, from its last lines on."""
        place, client = LogFollowing(run_id, tail), self._client
        while True:
            run = await self.get(run_id)
            text = place.read(await client.ask(place.more()))
            if text:
                yield text
            if run.final:
                return
            await client._pause(LOG_POLL_INTERVAL)


class DeadLetters(Resource):
    list = PagedMethod(dead_letters.page)
    page = Method(dead_letters.page)
    get = Method(dead_letters.show)
    requeue = Method(dead_letters.requeue)
    discard = Method(dead_letters.discard)


class Bulk(Resource):
    start = Method(bulk.start)
    preview = Method(bulk.preview)
    get = Method(bulk.show)
    list = PagedMethod(bulk.page)
    page = Method(bulk.page)
    stop = Method(bulk.stop)


class Schedules(Resource):
    preview = Method(schedules.preview)


class Tasks(Resource):
    list = Method(fleet.tasks)
    register = Method(fleet.register_tasks)


class Queues(Resource):
    list = Method(fleet.queues)
    get = Method(fleet.queue)
    pause = Method(fleet.pause_queue)
    resume = Method(fleet.resume_queue)


class Workers(Resource):
    list = Method(fleet.workers)
    get = Method(fleet.worker)
    runs = PagedMethod(fleet.worker_runs_page)
    drain = Method(fleet.drain_worker)
    resume = Method(fleet.resume_worker)


class Keys(Resource):
    create = Method(keys.create)
    list = Method(keys.listed)
    revoke = Method(keys.revoke)


class Notifications(Resource):
    get = Method(notifications.show)
    put = Method(notifications.put)
    test = Method(notifications.test)
    secret = Method(notifications.secret)
    rotate_secret = Method(notifications.rotate_secret)


class Users(Resource):
    list = PagedMethod(users.page)
    page = Method(users.page)
    forget = Method(users.forget)


class AsyncClient(Resource):
    """Calls a server; belongs to one event loop. Close it, or use it in an `async with` block.

    `timeout` is the time limit of each answer, in seconds. Calls that are safe to repeat are retried when no answer
    arrives, or a temporary refusal: at most `retries` times and for `retry_for` seconds.
    """

    me = Method(keys.mine)
    server = Method(about.server)
    processes = Method(about.processes)
    stats = Method(fleet.stats)
    series = Method(overview.series)
    lookup = Method(fleet.lookup)
    counts = Method(fleet.counts)
    problems = Method(overview.problems)
    upcoming = PagedMethod(overview.upcoming_page)
    upcoming_density = Method(overview.upcoming_density)
    audit = PagedMethod(fleet.audit_page)
    findings = PagedMethod(fleet.findings_page)
    errors = PagedMethod(error_groups.page)
    scaling = Method(fleet.scaling)

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        timeout: float = 10.0,
        *,
        retries: int = 4,
        retry_for: float = 30.0,
        context: str | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        super().__init__(self)
        address = find_address(url, key, context)
        self.url = address.url
        self._clock = SystemClock()
        self.retry_policy = RetryPolicy(address.url, timeout, retries, retry_for, seconds_now(self._clock))
        self.jobs = Jobs(self)
        self.runs = Runs(self)
        self.dead_letters = DeadLetters(self)
        self.bulk = Bulk(self)
        self.schedules = Schedules(self)
        self.tasks = Tasks(self)
        self.queues = Queues(self)
        self.workers = Workers(self)
        self.keys = Keys(self)
        self.notifications = Notifications(self)
        self.users = Users(self)
        self._http = httpx2.AsyncClient(**http_options(address, timeout), transport=transport)

    async def ask(self, call: Call[T]) -> T:
        """Send one call and return its result."""
        return await self.send(ask(call, self.retry_policy))

    async def through(self, call: Call[Page[T]]) -> AsyncIterator[T]:
        """Yield every item of a list, from the page of this call on."""
        page = await self.ask(call)
        for item in page.items:
            yield item
        while page.next_page_token is not None:
            page = await self.ask(following(call, page.next_page_token))
            for item in page.items:
                yield item

    async def events(
        self,
        last_event_id: str | None = None,
        *,
        job: str | None = None,
        run: str | None = None,
        types: Sequence[str] | None = None,
        pulse: bool = False,
    ) -> AsyncIterator[Event]:
        """Yield the events of your jobs and runs as they happen, without an end.

        Narrow the stream to one job or run by its id, or to `types` of events: `run`, `job`, `dead`, `worker`, `queue`,
        `pulse`. With `pulse` the numbers of the last second come as well.
        After an interruption the stream reconnects and resumes. A `resync` event says that events may be missing.
        Raises `ServerUnreachable` after `retries` failures in a row.
        """
        call = events(job, run, types, pulse=pulse)
        place, params = Following(call, last_event_id, self.retry_policy), dict(call.params) or None
        while True:
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
        reply: Answer | Lost | None = None
        while True:
            try:
                step = exchange.send(reply)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]  # what a generator returns has no type
            reply = None
            if isinstance(step, Pause):
                await self._pause(step.seconds)
            else:
                reply = await self._send(step)

    async def _send(self, call: Call[Any]) -> Answer | Lost:
        try:
            return answer_of(await self._http.request(**request_of(call)))
        except httpx2.RequestError as error:
            return lost(error)

    async def _pause(self, seconds: float) -> None:
        await self._clock.sleep(Duration(round(seconds * SECOND)))

    async def close(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
