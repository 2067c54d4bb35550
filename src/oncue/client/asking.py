"""How a call is asked: sent, and sent again while that is safe and likely to help.

A conversation is a generator. It yields what is to be sent, or how long to pause, and is given what came back; the
two clients only do the sending and the pausing, so that there is one set of rules for both.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from http import HTTPStatus
from random import random
from typing import Any, TypeVar

import msgspec

from oncue.client import runs
from oncue.client.call import Answer, Call
from oncue.client.errors import ServerUnreachable, WaitTimeout
from oncue.clock import SystemClock
from oncue.domain.instants import SECOND
from oncue.shapes.runs import Run

T = TypeVar("T")

NOT_DONE = 429  # whoever says this has done nothing
PASSING = frozenset({NOT_DONE, 502, 503, 504})  # refusals that may be over in a moment
FIRST_GAP = 0.1  # seconds
LONGEST_GAP = 5.0
FIRST_LOOK = 0.05
LONGEST_LOOK = 2.0
LEAST_PATIENCE = 1.0  # seconds that an answer is given even if hardly any are left


class Pause(msgspec.Struct, frozen=True):
    seconds: float


class Lost(msgspec.Struct, frozen=True):
    """No answer came, and this is why. Unless `sent` is false, the server may have got it."""

    why: str
    sent: bool


DONE = Answer(HTTPStatus.OK, {}, b"null")  # in the place of an answer that was lost

Exchange = Generator[Call[Any] | Pause, Answer | Lost | None, T]


class RetryPolicy(msgspec.Struct, frozen=True):
    """How patient a client is: `retries` times and `retry_for` seconds at most, with random gaps that grow."""

    url: str
    timeout: float
    """Seconds that one answer may take."""
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


def ask(call: Call[T], retry_policy: RetryPolicy, end: float | None = None) -> Exchange[T]:
    """Send a call until it is answered. Only what is safe to send twice is sent again.

    If what it takes away is gone after a try that may have arrived, that try was the one that took it away.
    WaitTimeout: no answer came, and `end` is before the next try.
    """
    until = retry_policy.now() + retry_policy.retry_for
    failures, sent = 0, False
    while True:
        reply = yield call if end is None else _in_time(call, end, retry_policy)
        assert reply is not None, "whatever is sent is answered or lost"
        if isinstance(reply, Answer) and reply.status not in PASSING:
            return call.read(DONE if call.removes and sent and reply.status == HTTPStatus.NOT_FOUND else reply)
        failures += 1
        sent = sent or (reply.sent if isinstance(reply, Lost) else reply.status != NOT_DONE)
        gap = retry_policy.gap(failures, reply.retry_after if isinstance(reply, Answer) else None)
        again = call.repeatable and failures <= retry_policy.retries
        if end is not None and retry_policy.now() + (gap if again else 0) >= end:
            yield Pause(max(end - retry_policy.now(), 0))
            why = reply.why if isinstance(reply, Lost) else f"status {reply.status}"
            raise WaitTimeout(f"no answer to {call.method} {call.path} in time: {why}")
        if not again or retry_policy.now() + gap > until:
            if isinstance(reply, Lost):
                raise ServerUnreachable(retry_policy.url, reply.why, sent=sent)
            return call.read(reply)
        yield Pause(gap)


def _in_time(call: Call[T], end: float, retry_policy: RetryPolicy) -> Call[T]:
    left = max(end - retry_policy.now(), LEAST_PATIENCE)
    return msgspec.structs.replace(call, timeout=min(left, retry_policy.timeout))


def wait(
    run_id: str, timeout: float | None, seen: Callable[[Run], None] | None, retry_policy: RetryPolicy
) -> Exchange[Run]:
    """Look at a run until it is final, less and less often."""
    end = None if timeout is None else retry_policy.now() + timeout
    gap = FIRST_LOOK
    while True:
        run = yield from ask(runs.show(run_id), retry_policy, end)
        if seen is not None:
            seen(run)
        if run.final:
            return run
        left = gap if end is None else end - retry_policy.now()
        if left <= 0:
            raise WaitTimeout(f"run {run_id} is {run.status} after {timeout:g} s; it goes on")
        yield Pause(min(gap, left))
        gap = min(gap * 1.5, LONGEST_LOOK)
