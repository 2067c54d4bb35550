"""The server's log is on a disk that is full. The first line that could not be written ended the loop that said it:
no timeout was kept any more, and a worker that died took the server with it.
"""

from __future__ import annotations

import os

from tests.attack.stage import Stage
from tests.attack.unheard import make_it_talk, tasks

__all__ = ["tasks"]


def stderr() -> int:
    return os.open("/dev/full", os.O_WRONLY)


def attack(stage: Stage) -> None:
    make_it_talk(stage)
