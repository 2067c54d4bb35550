"""Read a run's log: all of it, its end, or as it grows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from oncue.api.events import Stream, is_welcome
from oncue.api.http.answers import plain_text
from oncue.api.http.auth import Caller
from oncue.api.http.reading import path_id
from oncue.api.listing import read_query
from oncue.api.shared.context import Api
from oncue.domain.errors import Invalid, NotFound, ObjectLost, StorageRefused, StorageUnavailable, StoreUnavailable
from oncue.domain.fields import Reader, choice, takes
from oncue.domain.ids import RunId
from oncue.domain.instants import MILLISECOND, Duration
from oncue.domain.reference import read_reference
from oncue.domain.run_log import next_start, start_of
from oncue.engines.port import LogPart
from oncue.storage.compression import decompress

POLL_INTERVAL = Duration(500 * MILLISECOND)
MOST = 1 << 40
MISSING = "\n… a part of the log is missing in object storage\n".encode()
TEXT = "text/plain; charset=utf-8"


@takes(type="integer", minimum=0, maximum=MOST)
def _whole(raw: Any, path: str) -> int:
    if not (isinstance(raw, str) and raw.isascii() and raw.isdecimal() and int(raw) <= MOST):
        raise Invalid.of(path, "out_of_range", f"is a whole number from 0 to {MOST}")
    return int(raw)


PARAMETERS: Mapping[str, Reader] = {
    "follow": choice({"true": True, "false": False}),
    "tail": _whole,
    "after": _whole,
}


async def show(api: Api, request: Request, caller: Caller) -> Response:
    """`tail`: the last lines only. `after`: without the first bytes, which the caller has. `follow`: until it ends."""
    wanted, run_id = read_query(request, PARAMETERS), RunId(path_id(request))
    if await api.engine.history.run(caller.sees, run_id) is None:
        raise NotFound
    text = LogText(api, run_id)
    beginning = b"".join([piece async for piece in text.more()])[wanted.get("after", 0) :]
    if "tail" in wanted:
        beginning = last_lines(beginning, wanted["tail"])
    if not wanted.get("follow", False):
        return plain_text(beginning)
    return Stream(api.watching.streams, caller.uid, _following(api, request, caller, text, beginning), TEXT)


async def _following(
    api: Api, request: Request, caller: Caller, text: LogText, beginning: bytes
) -> AsyncIterator[bytes]:
    yield beginning
    while not api.watching.closed and await is_welcome(api, request):
        ended = False
        with suppress(StoreUnavailable, StorageUnavailable, StorageRefused):  # try again
            run = await api.engine.history.run(caller.sees, text.run_id)
            async for piece in text.more():
                yield piece
            ended = run is None or run.state.final
        if ended:
            return
        await api.clock.sleep(POLL_INTERVAL)


class LogText:
    """The text of a log, read part by part; remembers how far."""

    def __init__(self, api: Api, run_id: RunId) -> None:
        self._api = api
        self._last: int | None = None
        self.run_id = run_id

    async def more(self) -> AsyncIterator[bytes]:
        """Yield what was added since the last call. Each start of the run after the first begins with a line."""
        for part in await self._api.engine.history.read_log(self.run_id, -1 if self._last is None else self._last):
            text = await self._text(part)
            if self._last is not None and start_of(part.number) != start_of(self._last):
                text = next_start(start_of(part.number), part.at) + text
            self._last = part.number
            yield text

    async def _text(self, part: LogPart) -> bytes:
        reference = read_reference(part.text)
        if reference is None:
            return part.text
        try:
            return await asyncio.to_thread(decompress, await self._api.storage.get(reference))
        except ObjectLost:
            return MISSING


def last_lines(text: bytes, n: int) -> bytes:
    return b"".join(text.splitlines(keepends=True)[-n:]) if n else b""
