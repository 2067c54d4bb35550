"""Whoever read the server's log has gone. The first line ended the loop that said it: no timeout was kept any more."""

from __future__ import annotations

import os

from tests.attack.stage import Stage
from tests.attack.unheard import make_it_talk, tasks

__all__ = ["tasks"]


def stderr() -> int:
    reader, writer = os.pipe()
    os.close(reader)
    return writer


def attack(stage: Stage) -> None:
    make_it_talk(stage)
