"""The database file is deleted, or another one is put in its place, while a server uses it: jobs were acknowledged into
a file that nobody would ever find again, and the server called itself ready.

It happens to a server of its own: the victim's keeps its file.
"""

from __future__ import annotations

import shutil

from tests.attack.stage import Stage
from tests.processes.fleet import Fleet, until

ENGINES = ("sqlite",)


def attack(stage: Stage) -> None:
    folder = stage.fleet.folder / "own"
    folder.mkdir()
    own = Fleet(folder)
    own.code = stage.fleet.code
    try:
        own.up()
        file, aside = folder / "oncue.db", folder / "aside.db"
        file.rename(aside)
        _takes_nothing(own)
        shutil.copy(aside, file)
        _takes_nothing(own)
        aside.replace(file)
        until(lambda: own.raw("GET", "/readyz")[0] == 200, "it is ready again", own.tell)
    finally:
        own.close()


def _takes_nothing(own: Fleet) -> None:
    until(lambda: own.raw("GET", "/readyz")[0] == 503, "it is not ready", own.tell)
    for _ in range(3):
        status, answer, _ = own.raw("POST", "/v1/jobs", {"task": "mark", "payload": {}})
        assert status == 503, (status, answer)
