"""Tune a long-lived process: Python's garbage collector, and the limit of open files and sockets."""

from __future__ import annotations

import gc
import resource
from contextlib import suppress

YOUNG = 20_000  # containers created and not freed between two collections


def settle_collector() -> None:
    """Exclude all current objects from future collections. Called when a process has finished starting.

    By default Python searches for cycles each time some 700 more containers were created than freed, and now and then
    among all objects, including modules, routes and schemas, which are permanent. That took a twelfth of the CPU time
    of creating a job.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, 20, 20)


def allow_most_files() -> None:
    """Raise the limit to the hard limit: the usual soft limit is too low for a server.

    Programs that runs start have a limit of their own, `Settings.process_open_files`.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # a system may refuse its own hard limit; then the limit stays
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
