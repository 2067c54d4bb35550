"""How many test notices a user may ask for."""

from __future__ import annotations

from collections import defaultdict, deque
from http import HTTPStatus

from oncue.api.http.answers import Refused
from oncue.clock import Clock
from oncue.domain.ids import UserNumber
from oncue.domain.instants import MINUTE, SECOND, Instant

A_MINUTE = 10


class TestsAllowed:
    """Remembers the last tests of each user, in this process."""

    __test__ = False  # for pytest: no tests in here

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lately: dict[UserNumber, deque[Instant]] = defaultdict(lambda: deque(maxlen=A_MINUTE))

    def admit(self, uid: UserNumber) -> None:
        now, lately = self._clock.monotonic(), self._lately[uid]
        if len(lately) == A_MINUTE and now - lately[0] < MINUTE:
            wait = str(-(-(lately[0] + MINUTE - now) // SECOND))
            message = f"At most {A_MINUTE} test notices a minute. Retry after {wait} seconds."
            raise Refused(HTTPStatus.TOO_MANY_REQUESTS, message, {"Retry-After": wait})
        lately.append(now)
