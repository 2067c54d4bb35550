"""Stream changes as they happen, as Server-Sent Events."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from oncue.api.http.answers import AGAIN_SOON, ALWAYS, Refused
from oncue.api.http.auth import Caller
from oncue.api.http.connection import most_connections
from oncue.api.http.reading import read_id
from oncue.api.http.store_watchdog import WatchedCall
from oncue.api.listing import read_query
from oncue.api.shared.context import Api
from oncue.api.shared.event_channel import OF_ONE_JOB, STORED, Channel, Kind, Subject
from oncue.domain.errors import Invalid, NotFound, StoreUnavailable
from oncue.domain.fields import Reader, choice, takes
from oncue.domain.ids import JobId, RunId, UserNumber
from oncue.domain.instants import SECOND, Duration

KEY_CHECK_INTERVAL = 0.4  # seconds between two checks of the key: with the time a lookup is cached, less than a second
HEARTBEAT = Duration(15 * SECOND)
HEADERS = {**ALWAYS, "X-Accel-Buffering": "no"}  # some proxies buffer what must arrive at once
MOST_STREAMS = 20  # of one user, in this process: each holds a connection
MEDIA_TYPE = "text/event-stream"


@takes(type="string", examples=["run,dead"])
def _types(raw: str, path: str) -> frozenset[str]:
    found = frozenset(raw.split(","))
    if not found <= frozenset(Kind):
        raise Invalid.of(path, "unknown_value", f"must be one or more of {', '.join(Kind)}, separated by commas")
    return found


PARAMETERS: Mapping[str, Reader] = {
    "types": _types,
    "pulse": choice({"true": True, "false": False}),
    "job_id": read_id,
    "run_id": read_id,
}


class Wanted(msgspec.Struct, frozen=True):
    """What a reader asked for."""

    subject: Subject
    types: frozenset[str]

    @property
    def pulse(self) -> bool:
        return Kind.PULSE in self.types


async def stream(api: Api, request: Request, caller: Caller) -> Response:
    """Stream changes from now on; with a `Last-Event-ID`, from that event on, if all later events are still kept."""
    if request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers:
        raise Refused(HTTPStatus.BAD_REQUEST, "Send this request without a body.")
    wanted = await _wanted(api, request, caller)
    if request.method == "HEAD":
        return Response(headers=HEADERS, media_type=MEDIA_TYPE)
    channel = await api.watching.open(wanted.subject)
    last = request.headers.get("last-event-id")
    place = channel.last if last is None else channel.place(last)
    return Stream(api.watching.streams, caller.uid, _events(api, request, channel, place, wanted))


async def _wanted(api: Api, request: Request, caller: Caller) -> Wanted:
    """Read what is asked for. NotFound: there is no such job or run, or it is another user's."""
    asked = read_query(request, PARAMETERS)
    subject = await _subject(api, asked, caller)
    possible = OF_ONE_JOB if subject.narrow else frozenset(Kind)
    pulse = frozenset({Kind.PULSE}) if asked.get("pulse") else frozenset[str]()
    types = asked.get("types", possible & STORED) | pulse
    if not types <= possible:
        extra = ", ".join(sorted(types - possible))
        message = f"{extra} is about all jobs; leave it out, or leave out job_id and run_id"
        raise Invalid.of("types" if types - possible - pulse else "pulse", "not_of_one_job", message)
    return Wanted(subject, types)


async def _subject(api: Api, asked: Mapping[str, Any], caller: Caller) -> Subject:
    if "job_id" in asked and "run_id" in asked:
        raise Invalid.of("run_id", "not_both", "cannot be combined with job_id; leave one of them out")
    if "job_id" in asked:
        snap = await api.engine.jobs.read(caller.sees, JobId(asked["job_id"]))
        if snap is None:
            raise NotFound
        return Subject(snap.job.uid, job_id=snap.job.job_id)
    if "run_id" in asked:
        run = await api.engine.history.run(caller.sees, RunId(asked["run_id"]))
        if run is None:
            raise NotFound
        return Subject(run.uid, run_id=run.run_id)
    return Subject(caller.sees)


class Stream(StreamingResponse):
    """A stream that counts from before it is sent until its reader is gone."""

    def __init__(
        self,
        streams: Counter[UserNumber],
        uid: UserNumber,
        events: AsyncIterator[bytes],
        media_type: str = MEDIA_TYPE,
    ) -> None:
        if streams[uid] >= MOST_STREAMS:
            message = (
                f"You have {MOST_STREAMS} open event streams, the maximum. Close one, or share one between readers."
            )
            raise Refused(HTTPStatus.TOO_MANY_REQUESTS, message, AGAIN_SOON)
        if streams.total() >= most_connections() // 2:
            message = "Half of the server's connections are event streams, the maximum. Poll instead, or retry later."
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, message, AGAIN_SOON)
        super().__init__(events, headers=HEADERS, media_type=media_type)
        streams[uid] += 1
        self._streams, self._uid = streams, uid

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._streams[self._uid] -= 1
            if not self._streams[self._uid]:
                del self._streams[self._uid]


async def _events(
    api: Api, request: Request, channel: Channel, place: int | None, wanted: Wanted
) -> AsyncIterator[bytes]:
    """Yield events until the server stops or the key is invalid. A reader has no buffer, only a channel position."""
    channel.readers += 1
    channel.pulse_readers += wanted.pulse
    pulses = channel.pulses
    try:
        if place is not None:
            yield f"id: {channel.event_id(place)}\n\n".encode()  # a client without events can resume, too
        spoke_at = api.clock.monotonic()
        while not api.watching.closed and await is_welcome(api, request):
            news = channel.news
            events, place = channel.after(place, wanted.types)
            if wanted.pulse and pulses != channel.pulses:
                events, pulses = events + channel.pulse, channel.pulses
            if not events and api.clock.monotonic() - spoke_at >= HEARTBEAT:
                events = b": still here\n\n"
            if events:
                yield events
                spoke_at = api.clock.monotonic()
            else:
                await _wait(news)
    finally:
        channel.pulse_readers -= wanted.pulse
        api.watching.leave(channel)


async def _wait(news: asyncio.Event) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(KEY_CHECK_INTERVAL):
            await news.wait()


async def is_welcome(api: Api, request: Request) -> bool:
    """Whether the key is still valid. While the database is unavailable no request can have revoked it."""
    try:
        with WatchedCall(api.watchdog):
            await api.keyring.admit(request)
    except Refused:
        return False
    except StoreUnavailable:
        pass
    return True
