"""Sockets that say nothing, and come back when they are cut off: 1,100 of them shut the door to everybody, and none was
closed in half a minute.
"""

from __future__ import annotations

import socket
from contextlib import ExitStack

from tests.attack.sockets import cut_off, more_descriptors
from tests.attack.stage import Stage

MANY = 1_500
LONGER = 13  # seconds; a stranger has ten to say something


def attack(stage: Stage) -> None:
    with more_descriptors(), ExitStack() as crowd:
        silent: list[socket.socket] = [crowd.enter_context(stage.connect()) for _ in range(MANY)]
        first = set(silent)
        for _ in stage.during(LONGER):
            for place, one in enumerate(silent):
                if cut_off(one):
                    first.discard(one)
                    one.close()
                    silent[place] = crowd.enter_context(stage.connect())
            assert stage.fleet.raw("GET", "/healthz", timeout=5)[0] == 200
        assert not first, f"{len(first)} are still waited for"
