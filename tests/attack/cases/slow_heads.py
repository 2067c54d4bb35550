"""Heads of requests that come a byte at a time, without a key, and never to an end: as many as there are places."""

from __future__ import annotations

import time
from contextlib import ExitStack, suppress

from tests.attack.sockets import cut_off, more_descriptors
from tests.attack.stage import Stage

MANY = 1_100
LONGER = 15  # seconds; a head has ten


def attack(stage: Stage) -> None:
    with more_descriptors(), ExitStack() as crowd:
        slow = [crowd.enter_context(stage.connect()) for _ in range(MANY)]
        over = time.monotonic() + LONGER
        while time.monotonic() < over and slow:
            for one in slow:
                with suppress(OSError):
                    one.send(b"x")
            slow = [one for one in slow if not cut_off(one)]
            time.sleep(0.2)
        assert not slow, f"{len(slow)} are still waited for"
