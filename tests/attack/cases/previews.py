"""Twenty previews at a time, each a thousand occurrences long: everybody else waited for them, and was told that the
store was away.
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from tests.attack.stage import Stage

BUSY = True
AT_ONCE = 20
ASKED = {"schedule": {"cron": "0 0 29 2 1", "timezone": "Africa/Casablanca", "dst_gap": "skip"}, "count": 1_000}


def attack(stage: Stage) -> None:
    with ThreadPoolExecutor(AT_ONCE) as askers:
        seen = sum(askers.map(_ask, [stage] * AT_ONCE), Counter[int]())
    assert set(seen) == {200, 429}, seen


def _ask(stage: Stage) -> Counter[int]:
    answers = (stage.attacker.raw("POST", "/v1/schedules/preview", ASKED, timeout=20) for _ in stage.during(6))
    return Counter(status for status, *_ in answers)
