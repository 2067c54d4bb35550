"""A worker's cancel requests: active runs that it has to stop."""

from __future__ import annotations

from oncue.clock import Clock
from oncue.domain.ids import WorkerId
from oncue.domain.instants import MILLISECOND, SECOND, Duration, Instant
from oncue.engines.port import Engine
from oncue.services.attempts import Attempts, Stop

POLL_INTERVAL = Duration(500 * MILLISECOND)  # a hint is faster, but may be lost
IDLE = Duration(5 * SECOND)


class CancelInbox:
    name = "mailbox"

    def __init__(self, engine: Engine, clock: Clock, worker_id: WorkerId, attempts: Attempts) -> None:
        self._engine = engine
        self._clock = clock
        self._worker_id = worker_id
        self._attempts = attempts
        self._ask_at = clock.monotonic()
        self._hinted = False

    def begun(self) -> None:
        """All active attempts are new. Most end soon, so there is no poll before the first interval is over."""
        self._ask_at = Instant(self._clock.monotonic() + POLL_INTERVAL)

    def hint(self) -> None:
        """There may be a request; perhaps for a run whose claim has no answer yet."""
        self._hinted = True

    async def run_once(self) -> Duration:
        if not len(self._attempts):
            return IDLE
        now = self._clock.monotonic()
        if self._hinted or now >= self._ask_at:
            self._hinted, self._ask_at = False, Instant(now + POLL_INTERVAL)
            for request in await self._engine.fleet.cancel_requests(self._worker_id):
                self._attempts.stop(request.run_id, Stop.CANCELLED)
        return Duration(max(0, self._ask_at - self._clock.monotonic()))
