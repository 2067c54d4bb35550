"""Connections to PostgreSQL that outlive their engine, for the engine of the next test.

A new connection is a new process of the server, which plans each statement anew: most tests take less time than that.
Only what an engine closed with nothing going on is kept, and everything that an engine remembers is still its own.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import asyncpg
import pytest

from oncue.engines.postgres.connecting import Apart, Dialling

Options = str  # of a connection: one with others is no substitute


class WarmConnections:
    """For engines in one event loop."""

    def __init__(self) -> None:
        self._idle: defaultdict[str, defaultdict[Options, list[Apart]]] = defaultdict(lambda: defaultdict(list))

    def plant(self, patch: pytest.MonkeyPatch) -> None:
        dial = Dialling.connect

        async def connect(dialling: Dialling, url: str, **given: Any) -> Apart:
            options = {name: value for name, value in given.items() if name not in ("loop", "connection_class")}
            idle = self._idle[url][repr(sorted(options.items(), key=lambda option: option[0]))]
            while idle:
                if not (connection := idle.pop()).is_closed():
                    return connection
            return await dial(dialling, url, **given | {"connection_class": _kept_in(idle)})

        patch.setattr(Dialling, "connect", connect)

    def processes(self, url: str) -> list[int]:
        """The server's processes that wait for the next engine on this database."""
        return [connection.get_server_pid() for connection in self._of(url) if not connection.is_closed()]

    def hang_up(self, url: str) -> None:
        for connection in self._of(url):
            connection.terminate()
        self._idle.pop(url, None)

    def close(self) -> None:
        for url in list(self._idle):
            self.hang_up(url)

    def _of(self, url: str) -> list[Apart]:
        return [connection for idle in self._idle.get(url, {}).values() for connection in idle]


def _kept_in(idle: list[Apart]) -> type[Apart]:
    class Kept(asyncpg.Connection):  # type: ignore[type-arg]
        async def close(self, *, timeout: float | None = None) -> None:
            if self.is_closed() or self.is_in_transaction():
                await super().close(timeout=timeout)
            else:
                idle.append(self)

    return Kept
