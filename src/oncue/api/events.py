"""Stream changes as they happen, as Server-Sent Events."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from oncue.api.http.answers import AGAIN_SOON, ALWAYS, Refused
from oncue.api.http.auth import Caller
from oncue.api.http.connection import most_connections
from oncue.api.http.store_watchdog import WatchedCall
from oncue.api.shared.context import Api
from oncue.api.shared.watching import Channel
from oncue.domain.errors import StoreUnavailable
from oncue.domain.ids import UserNumber
from oncue.domain.instants import SECOND, Duration

KEY_CHECK_INTERVAL = 0.4  # seconds between two checks of the key: with the time a lookup is cached, less than a second
HEARTBEAT = Duration(15 * SECOND)
HEADERS = {**ALWAYS, "X-Accel-Buffering": "no"}  # some proxies buffer what must arrive at once
MOST_STREAMS = 20  # of one user, in this process: each holds a connection
MEDIA_TYPE = "text/event-stream"


async def stream(api: Api, request: Request, caller: Caller) -> Response:
    """Stream changes from now on; with a `Last-Event-ID`, from that event on, if all later events are still kept."""
    if request.method == "HEAD":
        return Response(headers=HEADERS, media_type=MEDIA_TYPE)
    if request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers:
        raise Refused(HTTPStatus.BAD_REQUEST, "Send this request without a body.")
    channel = await api.watching.open(caller.sees)
    last = request.headers.get("last-event-id")
    place = channel.last if last is None else channel.place(last)
    return Stream(api.watching.streams, caller.uid, _events(api, request, channel, place))


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


async def _events(api: Api, request: Request, channel: Channel, place: int | None) -> AsyncIterator[bytes]:
    """Yield events until the server stops or the key is invalid. A reader has no buffer, only a channel position."""
    channel.readers += 1
    try:
        if place is not None:
            yield f"id: {channel.event_id(place)}\n\n".encode()  # a client without events can resume, too
        spoke_at = api.clock.monotonic()
        while not api.watching.closed and await is_welcome(api, request):
            news = channel.news
            events, place = channel.after(place)
            if not events and api.clock.monotonic() - spoke_at >= HEARTBEAT:
                events = b": still here\n\n"
            if events:
                yield events
                spoke_at = api.clock.monotonic()
            else:
                await _wait(news)
    finally:
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
