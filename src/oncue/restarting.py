"""Keep a background task running for the life of the process: when it ends, for any reason, it is logged and restarted.

If it ends too often, the process exits with its own exit code instead: a service manager notices an exit, but not a
process that is alive and does nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from oncue import logs
from oncue.clock import Clock
from oncue.domain.instants import MINUTE, SECOND, Duration, Instant
from oncue.log import log

GAVE_UP = 70  # the exit code of a process that could not keep a task running
MOST_ENDS = 5
WITHIN = Duration(MINUTE)  # the window in which ends are counted
PAUSE = Duration(SECOND // 5)  # before a restart


def give_up() -> None:
    logs.end(GAVE_UP)


class Supervised:
    """Starts at once. `make` creates the coroutine for each start. After `most_ends` ends in a minute it gives up.

    It watches by a callback, without an asyncio task of its own that could itself end unnoticed.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[], Coroutine[Any, Any, None]],
        clock: Clock,
        *,
        most_ends: int = MOST_ENDS,
        give_up: Callable[[], None] = give_up,
    ) -> None:
        self._name = name
        self._make = make
        self._clock = clock
        self._give_up = give_up
        self._most_ends = most_ends
        self._ends: deque[Instant] = deque(maxlen=most_ends)
        self._stopping = False
        self._again: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._begin()

    def _begin(self) -> None:
        self._task = self._loop.create_task(self._make(), name=self._name)
        self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        why = asyncio.CancelledError() if task.cancelled() else task.exception()
        if self._stopping:
            return
        now = self._clock.monotonic()
        self._ends.append(now)
        often = sum(now - at < WITHIN for at in self._ends)
        if often >= self._most_ends:
            log.critical(
                "A service ended too often; the process exits",
                kind="service_gave_up",
                service=self._name,
                ends=often,
                exc_info=why,
            )
            self._give_up()
        else:
            log.error(
                "A service ended; it restarts", kind="service_restarted", service=self._name, ends=often, exc_info=why
            )
            self._again = self._loop.call_later(PAUSE / SECOND, self._begin)

    def cancel(self) -> None:
        """Cancel the task without restarting it."""
        self._stopping = True
        if self._again is not None:
            self._again.cancel()
        self._task.cancel()

    async def stop(self, within: float = 0.0) -> None:
        """Wait up to `within` seconds for the task to end by itself, then cancel it. It has ended on return."""
        self._stopping = True
        if within:
            await asyncio.wait({self._task}, timeout=within)
        self.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
