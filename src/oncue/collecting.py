"""Python's garbage collector, set for a process that lives long and makes many things that live shortly.

As Python comes, it looks for cycles each time some 700 more containers were made than freed, and now and then among all
there are: modules, routes and schemas as well, which are there to stay. That was a twelfth of the processor time that
creating a job took.
"""

from __future__ import annotations

import gc

YOUNG = 20_000  # containers made, and not freed, between two looks


def settle() -> None:
    """What there is by now is there to stay, and is not looked at again. For whoever has finished starting."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, 20, 20)
