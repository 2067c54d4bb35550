"""Tune Python's garbage collector for a long-lived process with many short-lived objects.

By default Python searches for cycles each time some 700 more containers were created than freed, and now and then among
all objects, including modules, routes and schemas, which are permanent. That took a twelfth of the CPU time of creating
a job.
"""

from __future__ import annotations

import gc

YOUNG = 20_000  # containers created and not freed between two collections


def settle() -> None:
    """Exclude all current objects from future collections. Called when a process has finished starting."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, 20, 20)
