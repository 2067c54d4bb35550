"""Batches that are in order, six at a time: the store was believed to be away, everybody who waited was sent away, and
half of the batches that got a 503 were made.
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from tests.attack.stage import Stage

BUSY = True
AT_ONCE = 6
JOB = {
    "task": "victim_loop",
    "payload": {"secret": "none"},
    "schedule": {"at": "2030-01-01T00:00:00Z"},
    "name": "b" * 150,
}
BATCH = {"jobs": [JOB] * 10_000}


def attack(stage: Stage) -> None:
    with ThreadPoolExecutor(AT_ONCE) as senders:
        seen = sum(senders.map(_send, [stage] * AT_ONCE), Counter[int]())
    assert set(seen) <= {201, 429}, seen


def _send(stage: Stage) -> Counter[int]:
    return Counter(stage.attacker.raw("POST", "/v1/jobs/batch", BATCH, timeout=60)[0] for _ in stage.during(6))
