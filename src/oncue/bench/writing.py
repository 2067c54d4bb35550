"""Requests as bytes, encoded before any clock starts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from uuid import uuid4

from oncue.bench.measuring_tasks import TASK
from oncue.bench.stand import Stand
from oncue.domain.instants import MILLISECOND, SECOND, Duration, Instant, rfc3339

BATCH = 1_000
AHEAD = Duration(2 * SECOND)  # how long before their due instant jobs are created
BATCHES = 10  # a second, of a steady load


def single(stand: Stand, due: Instant) -> bytes:
    """Return a request for one job, with an idempotency key, as our clients send it."""
    return stand.request("POST", "jobs", _job(rfc3339(due)), str(uuid4()))


def single_now(stand: Stand) -> bytes:
    """Return a request for one job that is due at once."""
    return stand.request("POST", "jobs", _job("now"), str(uuid4()))


def batch(stand: Stand, jobs: Sequence[bytes]) -> bytes:
    return stand.request("POST", "jobs/batch", b'{"jobs":[' + b",".join(jobs) + b"]}")


def batches(stand: Stand, count: int, schedule: str) -> list[bytes]:
    """Return batches of `count` jobs in all, with the same schedule."""
    job = _job(schedule)
    return [batch(stand, [job] * size) for size in sizes(count)]


def batch_due(stand: Stand, dues: Sequence[Instant]) -> bytes:
    jobs = {due: _job(rfc3339(due)) for due in set(dues)}
    return batch(stand, [jobs[due] for due in dues])


def steady(first: Instant, rate: int, seconds: int) -> Iterator[tuple[Instant, list[Instant]]]:
    """Yield `rate` runs a second: when to send each batch, and when its runs are due, spread over their interval.

    In whole milliseconds, as the API represents them.
    """
    for number in range(seconds * BATCHES):
        runs = range(-(-number * rate // BATCHES), -(-(number + 1) * rate // BATCHES))
        dues = [Instant((first + n * SECOND // rate) // MILLISECOND * MILLISECOND) for n in runs]
        yield Instant(first - AHEAD + number * SECOND // BATCHES), dues


def sizes(count: int) -> Iterator[int]:
    """Yield the sizes of the batches that add up to this."""
    for start in range(0, count, BATCH):
        yield min(BATCH, count - start)


def _job(schedule: str) -> bytes:
    return b'{"task":"%s","schedule":"%s"}' % (TASK.encode(), schedule.encode())
