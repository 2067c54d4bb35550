"""Streams of events that nobody reads, while runs with long errors end: 99 of one member took 740 MB."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from typing import Any

from tests.attack.sockets import memory_of
from tests.attack.stage import Stage

from oncue import NoRetry, Tasks

BUSY = True
STREAMS = 99
GROWTH = 150 * 1024 * 1024

tasks = Tasks()


@tasks.task("complain")
async def complain(ctx: Any) -> None:
    raise NoRetry("x" * 4_000)


def attack(stage: Stage) -> None:
    before = memory_of(stage.server)
    with ExitStack() as crowd:
        for _ in range(STREAMS):
            wire = crowd.enter_context(socket.socket())
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            wire.connect(("127.0.0.1", stage.fleet.port))
            key = stage.attacker.key.encode()
            wire.sendall(b"GET /v1/events HTTP/1.1\r\nHost: oncue\r\nAuthorization: Bearer " + key + b"\r\n\r\n")
        for _ in stage.during(8):
            stage.settled(stage.many(100, "complain"))
    grown = memory_of(stage.server) - before
    assert grown < GROWTH, f"memory grew by {grown // 1024**2} MB"
