"""Send a call, and retry it while that is safe and likely to help.

An exchange is a generator. It yields a call to send, or a pause, and receives the answer. The two clients only send and
pause, so that both follow the same rules.
"""

from __future__ import annotations

from codecs import getincrementaldecoder
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

NOT_DONE = 429  # the server has not processed the request
PASSING = frozenset({NOT_DONE, 502, 503, 504})  # temporary refusals, worth a retry
FIRST_RETRY_DELAY = 0.1  # seconds
LONGEST_RETRY_DELAY = 5.0  # seconds
FIRST_POLL_INTERVAL = 0.05  # seconds
LONGEST_POLL_INTERVAL = 2.0  # seconds
LOG_POLL_INTERVAL = 0.5  # seconds
SHORTEST_ANSWER_TIMEOUT = 1.0  # seconds, even if less time is left


class Pause(msgspec.Struct, frozen=True):
    seconds: float


class Lost(msgspec.Struct, frozen=True):
    """No answer arrived, and why. Unless `sent` is false, the server may have received the request."""

    why: str
    sent: bool


DONE = Answer(HTTPStatus.OK, {}, b"null")  # replaces a lost answer

Exchange = Generator[Call[Any] | Pause, Answer | Lost | None, T]


class RetryPolicy(msgspec.Struct, frozen=True):
    """When a client retries: at most `retries` times and for `retry_for` seconds, with random delays that grow."""

    url: str
    timeout: float
    """Time limit of one answer, in seconds."""
    retries: int
    retry_for: float
    now: Callable[[], float]
    """Returns a monotonic time in seconds."""
    chance: Callable[[], float] = random
    """Returns a random number from 0 to 1."""

    def gap(self, failures: int, at_least: float | None = None) -> float:
        """Return the delay before the next retry: the server's Retry-After plus a random part, to spread clients."""
        grown = min(FIRST_RETRY_DELAY * (1 << min(failures - 1, 10)), LONGEST_RETRY_DELAY)
        return (at_least or 0) + grown * (0.5 + self.chance() / 2)


def seconds_now(clock: SystemClock) -> Callable[[], float]:
    return lambda: clock.monotonic() / SECOND


def ask(call: Call[T], retry_policy: RetryPolicy, end: float | None = None) -> Exchange[T]:
    """Send a call until it is answered. Retries only calls that are safe to repeat.

    If a call that removes an object gets a 404 after an earlier attempt that may have arrived, that attempt removed it.
    WaitTimeout: no answer arrived, and `end` is before the next retry.
    """
    until = retry_policy.now() + retry_policy.retry_for
    failures, sent = 0, False
    while True:
        reply = yield call if end is None else _in_time(call, end, retry_policy)
        assert reply is not None, "each request is answered or lost"
        if isinstance(reply, Answer) and reply.status not in PASSING:
            return call.read(DONE if call.removes and sent and reply.status == HTTPStatus.NOT_FOUND else reply)
        failures += 1
        sent = sent or (reply.sent if isinstance(reply, Lost) else reply.status != NOT_DONE)
        gap = retry_policy.gap(failures, reply.retry_after if isinstance(reply, Answer) else None)
        again = call.repeatable and failures <= retry_policy.retries
        if end is not None and retry_policy.now() + (gap if again else 0) >= end:
            yield Pause(max(end - retry_policy.now(), 0))
            why = reply.why if isinstance(reply, Lost) else f"status {reply.status}"
            raise WaitTimeout(f"No answer to {call.method} {call.path} in time: {why}.")
        if not again or retry_policy.now() + gap > until:
            if isinstance(reply, Lost):
                raise ServerUnreachable(retry_policy.url, reply.why, sent=sent)
            return call.read(reply)
        yield Pause(gap)


def _in_time(call: Call[T], end: float, retry_policy: RetryPolicy) -> Call[T]:
    left = max(end - retry_policy.now(), SHORTEST_ANSWER_TIMEOUT)
    return msgspec.structs.replace(call, timeout=min(left, retry_policy.timeout))


class LogFollowing:
    """The position in a log that grows. Read the run before the log: the log of a final run is complete."""

    def __init__(self, run_id: str, tail: int | None) -> None:
        self._run_id = run_id
        self._tail = tail
        self._after = 0
        self._decode = getincrementaldecoder("utf-8")("replace").decode

    def more(self) -> Call[bytes]:
        return runs.logs_after(self._run_id, self._after)

    def read(self, added: bytes) -> str:
        """Return the text to show of what was added."""
        first, self._after = self._after == 0, self._after + len(added)
        text = self._decode(added)
        if first and self._tail is not None:
            return "".join(text.splitlines(keepends=True)[-self._tail :]) if self._tail else ""
        return text


def wait(
    run_id: str, timeout: float | None, seen: Callable[[Run], None] | None, retry_policy: RetryPolicy
) -> Exchange[Run]:
    """Poll a run until it is final, at growing intervals."""
    end = None if timeout is None else retry_policy.now() + timeout
    gap = FIRST_POLL_INTERVAL
    while True:
        run = yield from ask(runs.show(run_id), retry_policy, end)
        if seen is not None:
            seen(run)
        if run.final:
            return run
        left = gap if end is None else end - retry_policy.now()
        if left <= 0:
            message = f"Run {run_id} is still {run.status} after {timeout:g} s and continues. Wait again or cancel it."
            raise WaitTimeout(message)
        yield Pause(min(gap, left))
        gap = min(gap * 1.5, LONGEST_POLL_INTERVAL)
