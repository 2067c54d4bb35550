"""Calls on the server and its processes."""

from __future__ import annotations

from oncue.client.call import Call, field, get, model, path
from oncue.shapes.server import Process, Server


def server() -> Call[Server]:
    """Get the server's version, limits and time."""
    return get(path("server"), model(Server))


def processes() -> Call[tuple[Process, ...]]:
    """List the API, scheduler and worker processes that run on the server's database."""
    return get(path("processes"), field("processes", tuple[Process, ...]))
