"""Read a run's log: all of it, its end, or as it grows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from oncue.api.events import Stream, is_welcome
from oncue.api.http.answers import answer, plain_text
from oncue.api.http.auth import Caller
from oncue.api.http.reading import path_id
from oncue.api.listing import number, read_query
from oncue.api.shared.context import Api
from oncue.domain.errors import Invalid, NotFound, ObjectLost, StorageRefused, StorageUnavailable, StoreUnavailable
from oncue.domain.fields import Reader, choice, takes
from oncue.domain.ids import RunId
from oncue.domain.instants import MILLISECOND, Duration, rfc3339
from oncue.domain.reference import read_reference
from oncue.domain.run import RunView
from oncue.domain.run_log import next_start, start_of
from oncue.engines.port import LogPart
from oncue.storage.compression import decompress

USUAL_PARTS, MOST_PARTS = 100, 1_000
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
    "format": choice({"text": "text", "json": "json"}),
    "limit": number(1, MOST_PARTS, USUAL_PARTS),
}


async def show(api: Api, request: Request, caller: Caller) -> Response:
    """`tail`: the last lines only. `after`: without the first bytes, which the caller has. `follow`: until it ends."""
    wanted, run_id = read_query(request, PARAMETERS), RunId(path_id(request))
    as_parts = wanted.get("format") == "json"
    _refuse_together(wanted, as_parts)
    run = await api.engine.history.run(caller.sees, run_id)
    if run is None:
        raise NotFound
    if as_parts:
        return answer(await _parts(api, run, wanted.get("after"), wanted.get("limit", USUAL_PARTS)))
    text = LogText(api, run_id)
    beginning = b"".join([piece async for piece in text.more()])[wanted.get("after", 0) :]
    if "tail" in wanted:
        beginning = last_lines(beginning, wanted["tail"])
    if not wanted.get("follow", False):
        return plain_text(beginning)
    return Stream(api.watching.streams, caller.uid, _following(api, request, caller, text, beginning), TEXT)


def _refuse_together(wanted: Mapping[str, Any], as_parts: bool) -> None:
    """Parts are read page by page, text as a whole: what belongs to the one is refused with the other."""
    for name in ("follow", "tail") if as_parts else ("limit",):
        if name in wanted:
            raise Invalid.of(name, "not_together", f"is for format={'text' if as_parts else 'json'}; leave it out")


async def _parts(api: Api, run: RunView, after: int | None, limit: int) -> dict[str, Any]:
    """Parts with higher numbers than `after`. `next_after`: where to go on; null when the log is complete."""
    found = await api.engine.history.read_log(run.run_id, -1 if after is None else after)
    text, shown = LogText(api, run.run_id), found[:limit]
    last = shown[-1].number if shown else after
    more = len(found) > limit or not run.state.final
    return {
        "parts": [
            {
                "number": part.number,
                "start": start_of(part.number),
                "at": rfc3339(part.at),
                "text": (await text.of(part)).decode(errors="replace"),
            }
            for part in shown
        ],
        "next_after": last if more else None,
    }


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
            text = await self.of(part)
            if self._last is not None and start_of(part.number) != start_of(self._last):
                text = next_start(start_of(part.number), part.at) + text
            self._last = part.number
            yield text

    async def of(self, part: LogPart) -> bytes:
        """Return the text of one part, which may be in object storage."""
        reference = read_reference(part.text)
        if reference is None:
            return part.text
        try:
            return await asyncio.to_thread(decompress, await self._api.storage.get(reference))
        except ObjectLost:
            return MISSING


def last_lines(text: bytes, n: int) -> bytes:
    return b"".join(text.splitlines(keepends=True)[-n:]) if n else b""
