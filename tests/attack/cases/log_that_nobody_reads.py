"""Whoever has the server's log as a pipe does not read it, and it is full. The first line stopped the worker's loop:
nothing was started any more, until the keeper ended the worker after its lease.
"""

from __future__ import annotations

import os

from tests.attack.stage import Stage
from tests.attack.unheard import make_it_talk, tasks

__all__ = ["tasks"]


def stderr() -> int:
    _, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, b"." * 4_096)
    except BlockingIOError:
        os.set_blocking(writer, True)
    return writer


def attack(stage: Stage) -> None:
    make_it_talk(stage)
