"""Read declared schedules from Python code, for `oncue apply shop.tasks`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from oncue.cli.job_file import SUFFIXES, JobSet, Place
from oncue.domain.errors import Invalid

_MODULE = re.compile(r"\w+(\.\w+)*")


def is_code(source: str) -> bool:
    """Whether this is `file.py` or a module, with or without `:attribute`, and not a file or directory of jobs."""
    where = source.partition(":")[0]
    if where.endswith(".py"):
        return True
    return _MODULE.fullmatch(where) is not None and not where.endswith(SUFFIXES) and not _exists(source)


def _exists(source: str) -> bool:
    try:
        return Path(source).exists()
    except OSError:  # no file can have this name
        return False


def read_code_sets(sources: Sequence[str]) -> list[JobSet]:
    """Import these files and modules, and return what they declare. Invalid: they cannot be imported, or declare
    nothing.
    """
    from oncue.executors.loading import load_tasks

    found = load_tasks(sources).declared()
    if not found:
        message = "declares no schedule; write @tasks.task(schedule=…), or name the set to prune it: Tasks('shop')"
        raise Invalid.of(", ".join(sources), "no_schedules", message)
    return [
        JobSet(one.name, one.named, one.jobs, tuple(map(Place, one.places or sources[:1])), one.stamp) for one in found
    ]
