"""Every error oncue raises on purpose.

OncueError
├── Invalid            the input was read but is wrong; names each field          (422)
├── NotFound           no such thing, or it is another user's                     (404)
├── Conflict           the thing's state does not allow this                      (409)
├── Stale              the definition changed since the caller read it            (412)
├── QuotaExceeded      the user's quota is used up                                (422)
│   └── TooManyClasses more queues, labels and sizes than one user may have made  (422)
├── KeyReused          an idempotency key came back with another body             (422)
├── StoreUnavailable   the store cannot be reached; nothing is known to be stored (503)
├── StoreRefused       the store is there and will not have this: nothing of it is stored (422)
├── NoRetry            raised by a task: fail now, do not try again
└── RetryAfter         raised by a task: try again after this long

A message says what was wrong and what to do, or what happens next.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec


class Problem(msgspec.Struct, frozen=True):
    """One thing wrong with one field. `path` is dotted, `code` is stable, `message` is for people."""

    path: str
    code: str
    message: str


class OncueError(Exception):
    """The root: `except OncueError` catches whatever oncue raises on purpose."""


class Invalid(OncueError):
    """The input was read but is wrong. Nothing was stored."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__("; ".join(f"{p.path}: {p.message}" if p.path else p.message for p in problems))
        self.problems = problems

    @classmethod
    def of(cls, path: str, code: str, message: str) -> Invalid:
        return cls(Problem(path, code, message))

    def under(self, prefix: str) -> Invalid:
        """The same problems seen from one level further out: `cron` becomes `schedule.cron`."""
        return Invalid(*(Problem(f"{prefix}.{p.path}" if p.path else prefix, p.code, p.message) for p in self.problems))


@contextmanager
def inside(field: str) -> Iterator[None]:
    """Whatever is Invalid in this block is named as a part of `field`."""
    try:
        yield
    except Invalid as wrong:
        raise wrong.under(field) from None


class NotFound(OncueError):
    """No such thing, or not yours: the two look the same on purpose."""


class Conflict(OncueError):
    """The thing's state does not allow this; the message says what the state is."""


class Stale(OncueError):
    """The definition changed since the caller read it. Read it again, then decide again."""


class QuotaExceeded(OncueError):
    """The user's quota is used up. Nothing was stored. `path` is the field that is too large, if it is one."""

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(message)
        self.path = path


class TooManyClasses(QuotaExceeded):
    """The job needs a class, `key`, and its user has made as many as may be."""

    def __init__(self, message: str, path: str, key: object) -> None:
        super().__init__(message, path)
        self.key = key


class KeyReused(OncueError):
    """This idempotency key was used with another body. Nothing was stored."""


class StoreUnavailable(OncueError):
    """The store cannot be reached or did not answer in time. A write may or may not have happened: repeat it."""


class StoreRefused(OncueError):
    """The store is there, and there is something in this that it cannot keep. Nothing was stored; nor will it be."""


class NoRetry(OncueError):
    """Raised by a task: this run fails now, whatever retries are left."""


class RetryAfter(OncueError):
    """Raised by a task: try again after `delay` ("30s"); counts as a failure like any other."""

    def __init__(self, delay: str, message: str = "") -> None:
        super().__init__(message or f"asked to be tried again after {delay}")
        self.delay = delay
