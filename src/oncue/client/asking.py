"""How a call is asked: sent, and sent again while that is safe and likely to help.

A conversation is a generator. It yields what is to be sent, or how long to pause, and is given what came back; the
two clients only do the sending and the pausing, so that there is one set of rules for both.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from random import random
from typing import Any, TypeVar

import msgspec

from oncue.client import runs
from oncue.client.call import Answer, Call
from oncue.client.errors import ServerUnreachable, WaitTimeout
from oncue.client.models import Run
from oncue.clock import SystemClock
from oncue.domain.instants import SECOND

T = TypeVar("T")

PASSING = frozenset({429, 502, 503, 504})  # refusals that may be over in a moment
FIRST_GAP = 0.1  # seconds
LONGEST_GAP = 5.0
FIRST_LOOK = 0.05
LONGEST_LOOK = 2.0


class Pause(msgspec.Struct, frozen=True):
    seconds: float


class Lost(msgspec.Struct, frozen=True):
    """No answer came, and this is why. Unless `sent` is false, the server may have got it."""

    why: str
    sent: bool


Conversation = Generator[Call[Any] | Pause, Answer | Lost | None, T]


class Manners(msgspec.Struct, frozen=True):
    """How patient a client is: `retries` times and `retry_for` seconds at most, with random gaps that grow."""

    url: str
    retries: int
    retry_for: float
    now: Callable[[], float]
    """Seconds on a count that never goes back."""
    chance: Callable[[], float] = random
    """A number from 0 to 1."""

    def gap(self, failures: int, at_least: float | None = None) -> float:
        """How long to pause after so many failures: what the server asks for, and some more, to miss the crowd."""
        grown = min(FIRST_GAP * (1 << min(failures - 1, 10)), LONGEST_GAP)
        return (at_least or 0) + grown * (0.5 + self.chance() / 2)


def seconds_now(clock: SystemClock) -> Callable[[], float]:
    return lambda: clock.monotonic() / SECOND


def ask(call: Call[T], manners: Manners) -> Conversation[T]:
    """Send a call until it is answered. Only what is safe to send twice is sent again."""
    until = manners.now() + manners.retry_for
    failures, sent = 0, False
    while True:
        reply = yield call
        assert reply is not None, "whatever is sent is answered or lost"
        if isinstance(reply, Answer) and reply.status not in PASSING:
            return call.read(reply)
        failures += 1
        sent = sent or isinstance(reply, Answer) or reply.sent
        gap = manners.gap(failures, reply.retry_after if isinstance(reply, Answer) else None)
        if not call.repeatable or failures > manners.retries or manners.now() + gap > until:
            if isinstance(reply, Lost):
                raise ServerUnreachable(manners.url, reply.why, sent=sent)
            return call.read(reply)
        yield Pause(gap)


def wait(run_id: str, timeout: float | None, seen: Callable[[Run], None] | None, manners: Manners) -> Conversation[Run]:
    """Look at a run until it is final, less and less often."""
    until = None if timeout is None else manners.now() + timeout
    gap = FIRST_LOOK
    while True:
        run = yield from ask(runs.show(run_id), manners)
        if seen is not None:
            seen(run)
        if run.final:
            return run
        left = gap if until is None else until - manners.now()
        if left <= 0:
            raise WaitTimeout(f"run {run_id} is {run.status} after {timeout:g} s; it goes on")
        yield Pause(min(gap, left))
        gap = min(gap * 1.5, LONGEST_LOOK)
