"""How often somebody may ask."""

from __future__ import annotations

from http import HTTPStatus

from oncue.api.auth import Caller
from oncue.api.problems import AGAIN_SOON, Refused
from oncue.clock import Clock
from oncue.domain.ids import UserNumber
from oncue.domain.instants import SECOND, Instant
from oncue.engines.port import Role


class RateLimit:
    """A bucket for each user that holds the requests of one second, and fills at `rate` a second; 0: no limit.

    Instead of a level, the instant is kept at which the bucket is full again. All keys of a user share one bucket; an
    administrator has none. What is refused takes nothing out.
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
            message = f"more than {self._rate} requests a second: wait a second, then go on more slowly"
            raise Refused(HTTPStatus.TOO_MANY_REQUESTS, message, AGAIN_SOON)
        self._full_at[caller.uid] = full_at
