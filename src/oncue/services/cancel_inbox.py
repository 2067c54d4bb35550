"""A worker's cancel requests: active runs that it has to stop."""

from __future__ import annotations

from oncue.domain.ids import WorkerId
from oncue.domain.instants import MILLISECOND, SECOND, Duration
from oncue.engines.port import Engine
from oncue.services.attempts import Attempts, Stop

POLL_INTERVAL = Duration(500 * MILLISECOND)  # a hint is faster, but may be lost
IDLE = Duration(5 * SECOND)


class CancelInbox:
    name = "mailbox"

    def __init__(self, engine: Engine, worker_id: WorkerId, attempts: Attempts) -> None:
        self._engine = engine
        self._worker_id = worker_id
        self._attempts = attempts
        self._hinted = False
        self._polls = False  # attempts were active at the last pass

    def hint(self) -> None:
        """There may be a request; perhaps for a run whose claim has no answer yet."""
        self._hinted = True

    async def run_once(self) -> Duration:
        """Read the requests. Without a hint not before a first interval: most runs have ended by then."""
        if not len(self._attempts):
            self._polls = False
            return IDLE
        if not (self._polls or self._hinted):
            self._polls = True
            return POLL_INTERVAL
        self._polls, self._hinted = True, False
        for request in await self._engine.fleet.cancel_requests(self._worker_id):
            self._attempts.stop(request.run_id, Stop.CANCELLED)
        return POLL_INTERVAL
