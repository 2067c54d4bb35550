"""Several batches at a time, of values that take much more room in memory than in the body: one took 1.65 GB."""

from __future__ import annotations

import http.client
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from tests.attack.sockets import memory_of
from tests.attack.stage import Stage

BUSY = True
AT_ONCE = 4
JOB = b'{"task":"victim_loop","payload":{"secret":[' + b",".join([b"{}"] * 160) + b"]}}"  # which is not taken
BODY = b'{"jobs":[' + b",".join([JOB] * 10_000) + b"]}"
GROWTH = 400 * 1024 * 1024


def attack(stage: Stage) -> None:
    before = memory_of(stage.server)
    with ThreadPoolExecutor(AT_ONCE) as senders:
        seen = sum(senders.map(_send, [stage] * AT_ONCE), Counter[int]())
    grown = memory_of(stage.server) - before
    assert set(seen) <= {422, 429, 503, 413}, seen
    assert grown < GROWTH, f"memory grew by {grown // 1024**2} MB"


def _send(stage: Stage) -> Counter[int]:
    seen = Counter[int]()
    headers = {"Authorization": f"Bearer {stage.attacker.key}", "Content-Type": "application/json"}
    for _ in stage.during(6):
        line = http.client.HTTPConnection("127.0.0.1", stage.fleet.port, timeout=30)
        line.request("POST", "/v1/jobs/batch", BODY, headers)
        seen[line.getresponse().status] += 1
        line.close()
    return seen
