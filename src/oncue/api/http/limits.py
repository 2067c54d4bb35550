"""Limits of one user in this process: requests per second, concurrent requests, bytes of large bodies."""

from __future__ import annotations

from collections import Counter
from http import HTTPStatus
from types import TracebackType

from starlette.requests import Request

from oncue.api.http.answers import AGAIN_SOON, Refused
from oncue.api.http.auth import Caller
from oncue.clock import Clock
from oncue.domain.ids import UserNumber
from oncue.domain.instants import SECOND, Instant
from oncue.engines.port import Role

MOST_REQUESTS = 256  # requests of one user in progress: each holds a connection
LARGE = 64 * 1024  # bytes; larger bodies are counted, because parsing takes several times their size
MOST_BYTES = 96 * 1024 * 1024  # of large bodies being read or processed
BYTES_OF_ONE = 64 * 1024 * 1024  # the same, of one user


class RateLimit:
    """A token bucket per user: holds the requests of one second, and fills at `rate` per second; 0: no limit.

    Instead of a level it stores the instant at which the bucket is full again. All keys of a user share one bucket; an
    administrator has none. A refused request takes no token.
    """

    def __init__(self, clock: Clock, rate: int) -> None:
        self._clock = clock
        self._rate = rate
        self._full_at: dict[UserNumber, Instant] = {}

    def admit(self, caller: Caller) -> None:
        if self._rate == 0 or caller.role is Role.ADMIN:
            return
        now = self._clock.monotonic()
        full_at = Instant(max(self._full_at.get(caller.uid, now), now) + SECOND // self._rate)
        if full_at > now + SECOND:
            message = f"Rate limit of {self._rate} requests per second exceeded. Retry after 1 second."
            raise Refused(HTTPStatus.TOO_MANY_REQUESTS, message, AGAIN_SOON)
        self._full_at[caller.uid] = full_at


class ApiRequest(Request):
    """A request with its share of the limits, once its key is known."""

    share: Share | None = None


class Shares:
    """What all requests in progress use: taken when the key is known, released with the answer."""

    def __init__(self) -> None:
        self.requests: dict[UserNumber, int] = {}  # not a Counter, which is slow for missing users and deletions
        self.bytes: Counter[UserNumber] = Counter()
        self.all_bytes = 0


class Share:
    """The share of one request, held while it is processed."""

    __slots__ = ("_held", "_shares", "_uid")

    def __init__(self, shares: Shares, uid: UserNumber) -> None:
        self._shares = shares
        self._uid = uid
        self._held = 0

    def hold(self, size: int) -> None:
        """Reserve `size` bytes for a body, more than before. Refused: they exceed a limit, and nothing was reserved."""
        more, shares = size - self._held, self._shares
        if shares.bytes[self._uid] + more > BYTES_OF_ONE:
            message = (
                f"Your large requests exceed {BYTES_OF_ONE} bytes at the same time. Send them one after the other."
            )
            raise Refused(HTTPStatus.TOO_MANY_REQUESTS, message, AGAIN_SOON)
        if shares.all_bytes + more > MOST_BYTES:
            message = "The server is reading too many large requests. Nothing was changed; retry in 1 second."
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, message, AGAIN_SOON)
        self._held = size
        shares.bytes[self._uid] += more
        shares.all_bytes += more

    def __enter__(self) -> Share:
        requests, uid = self._shares.requests, self._uid
        others = requests.get(uid, 0)
        if others >= MOST_REQUESTS:
            message = f"More than {MOST_REQUESTS} of your requests are in progress. Wait for some of the answers."
            raise Refused(HTTPStatus.TOO_MANY_REQUESTS, message, AGAIN_SOON)
        requests[uid] = others + 1
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        shares, uid = self._shares, self._uid
        others = shares.requests.pop(uid) - 1
        if others:
            shares.requests[uid] = others
        if self._held:
            shares.all_bytes -= self._held
            shares.bytes[uid] -= self._held
            if not shares.bytes[uid]:
                del shares.bytes[uid]
