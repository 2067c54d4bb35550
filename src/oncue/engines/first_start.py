"""When the first attempt of a run started, from the beginning of its stored attempts: all of them may be long."""

from __future__ import annotations

import re

from oncue.domain.instants import Instant

_FIRST = re.compile(rb'\[\{"number":1,"worker_id":(?:null|"[0-9a-f-]{36}"),"started_at":(\d+),')


def first_start(started_at: Instant | None, attempts: bytes | None) -> Instant | None:
    """`started_at`: of the last attempt, the only one if none is recorded. None: not known, or it never started."""
    if attempts is None:
        return started_at
    found = _FIRST.match(attempts)
    return None if found is None else Instant(int(found[1]))
