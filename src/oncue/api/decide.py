"""Deciding about a job that others may be changing: look, decide, write, and all again if it moved on meanwhile."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import uniform
from typing import TypeVar

from oncue.clock import Clock
from oncue.domain.errors import Conflict
from oncue.domain.instants import MILLISECOND, Duration

TRIES = 20
FIRST_PAUSE = 2 * MILLISECOND
LONGEST_PAUSE = 200 * MILLISECOND

T = TypeVar("T")


async def until_settled(clock: Clock, attempt: Callable[[], Awaitable[T | None]]) -> T:
    """What an attempt comes to that is not None: that one was too late, and nothing was written.

    One that is made again at once finds what is there now. After that all who are at it wait for a while, each for
    another one, or the same few would be too late every time.
    """
    for number in range(TRIES):
        if number > 1:
            longest = min(FIRST_PAUSE << number, LONGEST_PAUSE)
            await clock.sleep(Duration(round(uniform(0, longest))))
        settled = await attempt()
        if settled is not None:
            return settled
    raise Conflict("this job is being changed by somebody else all the time: nothing was done; ask again")
