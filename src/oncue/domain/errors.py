"""Every error oncue raises on purpose.

OncueError
├── Invalid            the input is readable but wrong; names each field                     (422)
├── Forbidden          the role does not allow this                                          (403)
├── NotFound           the object does not exist, or belongs to another user                 (404)
├── Conflict           the object's state does not allow this                                (409)
│   └── Superseded     a newer declaration of the set was applied                            (409)
├── Stale              the definition changed since the caller read it                       (412)
├── QuotaExceeded      the user's quota is used up                                           (422)
│   └── TooManyClasses the user's jobs use too many combinations of queue, labels and size   (422)
├── KeyReused          an idempotency key was already used with a different body             (422)
├── StoreUnavailable   the database is unavailable; a write may or may not have been applied (503)
│   ├── WritesStalled  the database answers but confirms no writes                           (503)
│   ├── StoreFull      the database has no free connection                                   (503)
│   ├── StoreForbidden the database user has too few rights; an operator has to change that    (503)
│   └── OldPrimary     the database server was superseded by another; an operator has to act   (503)
├── StoreRefused       the database cannot store this value; nothing was stored              (422)
├── StorageUnavailable object storage is unavailable; a write may or may not have happened   (503)
├── StorageRefused     object storage does not let us in; a repeat does not help             (503)
├── ObjectLost         an object is missing in storage, or its bytes have changed            (404)
├── NoRetry            raised by a task: fail now, without a retry
└── RetryAfter         raised by a task: retry after this delay

A message says what is wrong and what to do, or what happens next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import islice
from typing import ParamSpec, TypeVar

import msgspec

P = ParamSpec("P")
T = TypeVar("T")

MOST_PROBLEMS = 100  # that are listed: the others are counted


class Problem(msgspec.Struct, frozen=True):
    """One problem with one field. `path` is dotted, `code` is stable, `message` is for people."""

    path: str
    code: str
    message: str


class More(Problem, frozen=True):
    """The last entry of a list that was cut: how many problems there are beside those in it."""

    more: int
    at_least: bool


def bounded(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Return the first problems, and last how many more there are. What was cut before may be among them."""
    listed, more, at_least = list[Problem](), 0, False
    for one in problems:
        if isinstance(one, More):
            more, at_least = more + one.more, at_least or one.at_least
        elif len(listed) < MOST_PROBLEMS:
            listed.append(one)
        else:
            more += 1
    return (*listed, _more(more, at_least)) if more else tuple(listed)


def first_problems(problems: Iterator[Problem]) -> list[Problem]:
    """Return the first problems of a check that is too expensive to be finished only to count them."""
    listed = list(islice(problems, MOST_PROBLEMS))
    return listed if next(problems, None) is None else [*listed, _more(1, at_least=True)]


def _more(n: int, at_least: bool) -> More:
    many = f"{'at least ' if at_least else ''}{n:,} more problem{'' if n == 1 else 's'}"
    return More("", "more_problems", f"and {many}", n, at_least)


UNCOUNTED = _more(0, at_least=True)  # among problems: there may be more than were counted


class OncueError(Exception):
    """The root: `except OncueError` catches every error that oncue raises on purpose."""


class Invalid(OncueError):
    """The input is readable but wrong. Nothing was stored. Of very many problems the first are listed."""

    def __init__(self, *given: Problem) -> None:
        problems = given if len(given) <= MOST_PROBLEMS else bounded(given)
        self.problems = problems
        super().__init__("; ".join(self.lines()))

    def lines(self) -> list[str]:
        """Return the problems in words."""
        return [f"{one.path}: {one.message}" if one.path else one.message for one in self.problems]

    @classmethod
    def of(cls, path: str, code: str, message: str) -> Invalid:
        return cls(Problem(path, code, message))

    def under(self, prefix: str) -> Invalid:
        """Prefix every path: `cron` becomes `schedule.cron`."""
        return Invalid(*(_under(prefix, one) for one in self.problems))


def tried(problems: list[Problem], read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
    """Return what `read` returns. If that is Invalid, add the problems and return None: further checks can go on."""
    try:
        return read(*args, **kwargs)
    except Invalid as wrong:
        problems.extend(wrong.problems)
        return None


def _under(prefix: str, one: Problem) -> Problem:
    if isinstance(one, More):
        return one
    return Problem(f"{prefix}.{one.path}" if one.path else prefix, one.code, one.message)


@contextmanager
def inside(field: str) -> Iterator[None]:
    """Prefix the paths of an Invalid raised in this block with `field`."""
    try:
        yield
    except Invalid as wrong:
        raise wrong.under(field) from None


class Forbidden(OncueError):
    """The role does not allow this; the message names the roles that do. Nothing was stored."""


class NotFound(OncueError):
    """The object does not exist, or belongs to another user: the two look the same on purpose."""


class Conflict(OncueError):
    """The object's state does not allow this; the message names the state."""


class Superseded(Conflict):
    """Another declaration of the set was applied since, and decides what its jobs are."""


class Stale(OncueError):
    """The definition changed since the caller read it. Read it again, then decide again."""


class QuotaExceeded(OncueError):
    """The user's quota is used up. Nothing was stored. `path` is the field that is too large, if one is."""

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(message)
        self.path = path


class TooManyClasses(QuotaExceeded):
    """The job needs a new class, `key`, but its user's jobs already use as many classes as allowed."""

    def __init__(self, message: str, path: str, key: object) -> None:
        super().__init__(message, path)
        self.key = key


class KeyReused(OncueError):
    """This idempotency key was already used with a different body. Nothing was stored."""


class StoreUnavailable(OncueError):
    """The database cannot be reached or did not answer in time. A write may or may not have happened: repeat it."""


class WritesStalled(StoreUnavailable):
    """The database answers reads, but writes do not come back. `tried` False: this call has written nothing."""

    def __init__(self, why: str, *, tried: bool) -> None:
        super().__init__(f"the database answers, but does not confirm writes: {why}")
        self.why = why
        self.tried = tried


class StoreFull(StoreUnavailable):
    """The database has no free connection. Nothing was stored; it works again when another program has closed one."""


class StoreForbidden(StoreUnavailable):
    """The database user may not do this. Nothing was stored; it works again when an operator has granted the right."""


class OldPrimary(StoreUnavailable):
    """The database server that answers was superseded by a newer primary. This call has written nothing to it."""


class StoreRefused(OncueError):
    """The database is available but cannot store this value. Nothing was stored, and repeating does not help."""


class StorageUnavailable(OncueError):
    """Object storage cannot be reached or did not answer in time. A write may or may not have happened: repeat it."""


class StorageRefused(OncueError):
    """Object storage answers, but does not let us in or has no such bucket: an operator has to change that."""


class ObjectLost(OncueError):
    """An object is not in storage any more, or its bytes are not those that were stored."""


class NotKept(ObjectLost):
    """Storage was unavailable when a run ended; its worker may still have the result, and attach it later."""


class NoRetry(OncueError):
    """Raise it in a task to fail the run now, even if retries are left: `raise NoRetry("the card was refused")`."""


class SecretMissing(NoRetry):
    """The payload names a secret that the worker does not find, or that this job may not use."""


class RetryAfter(OncueError):
    """Raise it in a task to choose the delay of the next retry: `raise RetryAfter("90s", "the bank asked to wait")`.

    `delay` is text or a timedelta. It counts as a failure like any other.
    """

    def __init__(self, delay: str | timedelta, message: str = "") -> None:
        super().__init__(message or f"the task asks for a retry after {delay}")
        self.delay = delay
