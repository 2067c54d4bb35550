"""Whoever comes without a good key leaves a trace, which is never the key, and never so long that it is an attack."""

from __future__ import annotations

import asyncio

import structlog
from starlette.requests import Request

from oncue.domain.plain_text import printable

PACE = 1.0  # seconds between two lines
SHOWN = 7  # characters of what was sent as a key: enough to tell whose it may have been, and a quarter of it at most

log = structlog.get_logger()


class FailedKeys:
    """Counted each, told about once a second: the first, and how many others there were."""

    def __init__(self) -> None:
        self.count = 0
        self._untold = 0
        self._quiet = False

    def note(self, request: Request, why: str) -> None:
        self.count += 1
        if self._quiet:
            self._untold += 1
            return
        log.warning("a request had no good key", why=why, **_about(request))
        self._be_quiet()

    def _be_quiet(self) -> None:
        self._quiet = True
        asyncio.get_running_loop().call_later(PACE, self._tell_rest)

    def _tell_rest(self) -> None:
        self._quiet, more, self._untold = False, self._untold, 0
        if more:
            log.warning("and more requests had no good key", more=more, in_all=self.count)
            self._be_quiet()


def _about(request: Request) -> dict[str, str]:
    key = request.headers.get("authorization", "").partition(" ")[2].strip()
    begins = printable(key[: min(SHOWN, len(key) // 4)])
    peer = "unknown" if request.client is None else request.client.host
    return {"peer": peer, "key_begins": begins, "path": printable(request.scope["path"][:200])}
