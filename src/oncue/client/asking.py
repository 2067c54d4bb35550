"""Send a call, and retry it while that is safe and likely to help.

An exchange is a generator. It yields a call to send, or a pause, and receives the answer. A stream is one that also
yields items. The two clients only send and pause, so that both follow the same rules.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from http import HTTPStatus
from random import random
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from oncue.client.call import Answer, Call, Page, following
from oncue.client.errors import ServerUnreachable, WaitTimeout
from oncue.clock import SystemClock
from oncue.domain.instants import SECOND

T = TypeVar("T")

NOT_DONE = 429  # the server has not processed the request
PASSING = frozenset({NOT_DONE, 502, 503, 504})  # temporary refusals, worth a retry
FIRST_RETRY_DELAY = 0.1  # seconds
LONGEST_RETRY_DELAY = 5.0  # seconds
SHORTEST_ANSWER_TIMEOUT = 1.0  # seconds, even if less time is left


class Pause(msgspec.Struct, frozen=True):
    seconds: float


class Lost(msgspec.Struct, frozen=True):
    """No answer arrived, and why. Unless `sent` is false, the server may have received the request."""

    why: str
    sent: bool


class Items(msgspec.Struct, Generic[T], frozen=True):
    """What a stream has for its reader."""

    items: Sequence[T]


DONE = Answer(HTTPStatus.OK, {}, b"null")  # replaces a lost answer

Exchange = Generator[Call[Any] | Pause, Answer | Lost | None, T]
Stream = Generator[Call[Any] | Pause | Items[T], Answer | Lost | None, None]


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


class Asker(Protocol):
    """The part of a client that exchanges need."""

    @property
    def retry_policy(self) -> RetryPolicy: ...

    def bound(self, value: Any) -> Any:
        """Return data of jobs and runs as snapshots with methods, and other values as they are."""


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


def pages(asker: Asker, call: Call[Page[T]]) -> Stream[Any]:
    """Yield every item of a list, from the page of this call on."""
    while True:
        page = yield from ask(call, asker.retry_policy)
        yield Items(asker.bound(page.items))
        if page.next_page_token is None:
            return
        call = following(call, page.next_page_token)
