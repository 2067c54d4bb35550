"""`oncue.embedded`, without what it starts: importing oncue must not import the server."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from oncue.tasks import Task

if TYPE_CHECKING:
    from oncue.client import AsyncClient


def embedded(*tasks: Iterable[Task[..., Any]]) -> AbstractAsyncContextManager[AsyncClient]:
    """Run the API, a scheduler and a worker for these tasks in this process, on a temporary file that is then deleted.

    Handles of the tasks use it while it is open, and so does the client that is returned. Tasks run in a thread with an
    event loop of its own, sync ones in threads, also those with `isolation="process"`. At the end of the block active
    runs are stopped, and nothing is kept.
    """
    running: AbstractAsyncContextManager[AsyncClient] = import_module("oncue.embedded_system").running(tasks)
    return running
