"""The loop of every service: call `run_once`, wait as long as it says, end when told to."""

from __future__ import annotations

import asyncio
from typing import Protocol

from oncue.clock import Clock, happens_within
from oncue.domain.errors import StoreUnavailable
from oncue.domain.instants import SECOND, Duration, Instant
from oncue.log import log
from oncue.metrics.numbers import SILENT, Numbers
from oncue.metrics.table import LAST_OK, PASSES

LONGEST_WAIT = Duration(5 * SECOND)
AFTER_AN_ERROR = Duration(SECOND)
OUTAGE_RETRY_DELAY = Duration(SECOND // 5)  # the database may be available again any moment, and work waits for it


class Service(Protocol):
    name: str

    async def run_once(self) -> Duration:
        """Do the pending work; return how long there will be nothing more to do. 0: call again at once."""
        ...


class Loop:
    """Runs a service. Waits are monotonic and capped: no clock step or lost wake-up makes a service sleep for good."""

    def __init__(self, service: Service, clock: Clock, numbers: Numbers = SILENT) -> None:
        self._service = service
        self._numbers = numbers
        self._clock = clock
        self._wanted = asyncio.Event()
        self._stopping = False
        self._away_since: Instant | None = None  # when the database was found unavailable, monotonic
        self.ok_at: Instant | None = None  # by the monotonic clock: the last pass without an error

    @property
    def name(self) -> str:
        return self._service.name

    def wake(self) -> None:
        """Run again without waiting, because something happened."""
        self._wanted.set()

    def stop(self) -> None:
        """End after the current pass."""
        self._stopping = True
        self._wanted.set()

    async def run(self) -> None:
        while not self._stopping:
            self._wanted.clear()
            wait = await self._pass()
            if wait > 0 and not self._stopping:
                await happens_within(self._clock, self._wanted, self._capped(wait))
            else:
                await asyncio.sleep(0)

    def _capped(self, wait: Duration) -> Duration:
        """Loops without work wake up together, which costs a process one wake-up instead of many."""
        return wait if wait < LONGEST_WAIT else Duration(LONGEST_WAIT - self._clock.monotonic() % LONGEST_WAIT)

    async def _pass(self) -> Duration:
        """Run one pass. Every error ends here, so that there is always a next pass."""
        try:
            wait = await self._service.run_once()
        except StoreUnavailable as away:
            if self._away_since is None:
                self._away_since = self._clock.monotonic()
                log.warning(
                    "The database is unavailable; retrying", kind="store_away", service=self.name, why=str(away)
                )
            self._numbers.add(PASSES, self.name, "away")
            return OUTAGE_RETRY_DELAY
        except Exception:
            log.exception("A pass of a service failed; the next one follows", kind="pass_failed", service=self.name)
            self._numbers.add(PASSES, self.name, "failed")
            return AFTER_AN_ERROR
        self.ok_at = self._clock.monotonic()
        self._numbers.add(PASSES, self.name, "ok")
        self._numbers.set(LAST_OK, self.name, to=self._clock.now() / SECOND)
        if self._away_since is not None:
            seconds = round((self._clock.monotonic() - self._away_since) / SECOND, 1)
            log.info("The database is available again", kind="store_back", service=self.name, seconds=seconds)
            self._away_since = None
        return wait
