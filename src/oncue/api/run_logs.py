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
from oncue.domain.ids import RunId, WorkerId
from oncue.domain.instants import MILLISECOND, Duration, rfc3339
from oncue.domain.reference import read_reference
from oncue.domain.run import RunView
from oncue.domain.run_parts import NOTES, delayed, last_of, next_start, start_of, waiting
from oncue.engines.port import LogPart
from oncue.storage.compression import decompress

USUAL_PARTS, MOST_PARTS = 100, 1_000
POLL_INTERVAL = Duration(500 * MILLISECOND)
MOST = 1 << 40
MISSING = "\n… a part of the log is missing in object storage\n".encode()
TEXT = "text/plain; charset=utf-8"
LOST = "\n… the rest of this log is lost: its worker ended while object storage was unavailable\n".encode()
DELAYED = {"Log-Delayed": "true"}


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
        return plain_text(beginning, DELAYED if text.delayed else None)
    return Stream(api.watching.streams, caller.uid, _following(api, request, caller, text, beginning), TEXT)


def _refuse_together(wanted: Mapping[str, Any], as_parts: bool) -> None:
    """Parts are read page by page, text as a whole: what belongs to the one is refused with the other."""
    for name in ("follow", "tail") if as_parts else ("limit",):
        if name in wanted:
            raise Invalid.of(name, "not_together", f"is for format={'text' if as_parts else 'json'}; leave it out")


async def _parts(api: Api, run: RunView, after: int | None, limit: int) -> dict[str, Any]:
    """Parts with higher numbers than `after`. `next_after`: where to go on; null when the log is complete."""
    found, is_delayed = await _read(api, run.run_id, after)
    text, shown = LogText(api, run.run_id), found[:limit]
    last = shown[-1].number if shown else after or 0  # each part has a higher number than 0
    more = len(found) > limit or is_delayed or not run.state.final
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
            ended = run is None or (run.state.final and not text.delayed)
        if ended:
            return
        await api.clock.sleep(POLL_INTERVAL)


async def _read(api: Api, run_id: RunId, after: int | None) -> tuple[list[LogPart], bool]:
    """The parts of a log after this number, and whether a worker still waits to store others.

    What follows a part that is still to be stored is left for later: a reader goes on by number, and would miss that
    part. A worker that is gone stores nothing any more: a note in the text says so.
    """
    after = -1 if after is None else after
    found = await api.engine.history.read_log(run_id, after)
    awaited = _awaited(found)
    if not awaited:
        return [part for part in found if part.number < NOTES], False
    there = {worker.worker_id for worker in await api.engine.fleet.workers()}
    if not there.issuperset(awaited.values()):
        found = await api.engine.history.read_log(run_id, after)  # it may have stored the rest before it went
        awaited = _awaited(found)
    at = {part.number: part.at for part in found}
    lost = [
        LogPart(last_of(start), LOST, at[delayed(start)])
        for start, worker_id in awaited.items()
        if worker_id not in there and last_of(start) > after
    ]
    late = [last_of(start) for start, worker_id in awaited.items() if worker_id in there]
    end = min(late, default=NOTES)
    return sorted((part for part in (*found, *lost) if part.number < end), key=lambda part: part.number), bool(late)


def _awaited(found: list[LogPart]) -> dict[int, WorkerId]:
    return waiting((part.number, part.text) for part in found if part.number >= NOTES)


class LogText:
    """The text of a log, read part by part; remembers how far, and if a worker waited to store more."""

    def __init__(self, api: Api, run_id: RunId) -> None:
        self._api = api
        self._last: int | None = None
        self.run_id = run_id
        self.delayed = False

    async def more(self) -> AsyncIterator[bytes]:
        """Yield what was added since the last call. Each start of the run after the first begins with a line."""
        found, self.delayed = await _read(self._api, self.run_id, self._last)
        for part in found:
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
