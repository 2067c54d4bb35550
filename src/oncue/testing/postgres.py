"""A private PostgreSQL server for tests and benches: up in a second, gone with the process that started it.

    with PrivatePostgres(fast=True) as server:
        url = server.create_database("mine")

`ONCUE_TEST_POSTGRES` decides where it comes from, see docs/testing.md. It listens on loopback only and trusts every
local connection: never keep important data in it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlsplit

import asyncpg

from oncue.testing.postgres_binaries import Binaries, PostgresMissing, find_binaries
from oncue.testing.postgres_cluster import Cluster, PostgresFailed, StopMode

__all__ = ["PostgresFailed", "PostgresMissing", "PrivatePostgres"]

HONEST: Mapping[str, object] = {"timezone": "UTC", "fsync": True, "synchronous_commit": True}
# Gives up only what a power cut can take. Commits stay synchronous, so they survive an immediate restart.
FAST: Mapping[str, object] = {**HONEST, "fsync": False, "full_page_writes": False, "max_wal_size": "256MB"}


class PrivatePostgres:
    """Our own server or, where `ONCUE_TEST_POSTGRES` is a URL, a running one on which we may create databases.

    `source` replaces the variable. `settings` are lines for postgresql.conf. `fast` makes tests quick by giving up
    durability against power cuts; without it the server is as durable as one in production.
    """

    def __init__(
        self, source: str | None = None, *, settings: Mapping[str, object] | None = None, fast: bool = False
    ) -> None:
        source = os.environ.get("ONCUE_TEST_POSTGRES", "") if source is None else source
        self._running_url = source if "://" in source else None
        self._binaries = None if self._running_url else find_binaries(source)
        self._settings = {**(FAST if fast else HONEST), **(settings or {})}
        self._fast = fast
        self._cluster: Cluster | None = None
        if settings:
            self._our_binaries("change the settings of")

    def __enter__(self) -> Self:
        if self.ours:
            try:
                self.start()
            except BaseException:
                self.close()
                raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def ours(self) -> bool:
        """Return whether the server is our own, which we may stop and restart."""
        return self._running_url is None

    @property
    def kind(self) -> str:
        """Return which server this is: "PostgreSQL 15.18 (machine: /usr/lib/postgresql/15/bin)"."""
        if self._binaries is None:
            return f"PostgreSQL {self._execute('show server_version')} (running: {urlsplit(self.url).hostname})"
        return f"PostgreSQL {self._binaries.version} ({self._binaries.origin}: {self._binaries.folder})"

    @property
    def url(self) -> str:
        """Return the URL of the server's maintenance database; `create_database` creates a private one."""
        return self._running_url or f"postgresql://postgres@127.0.0.1:{self._our_cluster().port}/postgres"

    @property
    def pid(self) -> int:
        """Return the process id of our running server."""
        return self._our_cluster().pid

    @property
    def folders(self) -> tuple[Path, ...]:
        """Return the folder of our server, which exists until `close`."""
        return () if self._cluster is None else (self._cluster.data, self._cluster.folder)

    def start(self) -> None:
        """Start our server and wait until it answers. The first start creates its folder; later ones find the data."""
        binaries = self._our_binaries("start")
        if self._cluster is None:
            self._cluster = Cluster(binaries, self._settings, in_memory=self._fast)
        self._cluster.start()

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop our server; `immediate` is a crash. The data stays for the next `start`."""
        self._our_binaries("stop")
        self._our_cluster().stop(mode)

    def restart(self, mode: StopMode = "fast") -> None:
        """Stop and start on the same port with the same data; `immediate` recovers as after a crash."""
        self._our_binaries("restart")
        self._our_cluster().restart(mode)

    def close(self) -> None:
        """Stop our server and remove its folder. Leaving the `with` block and the end of the process do it too."""
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            cluster.remove()

    def create_database(self, name: str, *, template: str = "template0") -> str:
        """Create a database and return its URL."""
        # Copying files is half the work of logging each page, as long as the checkpoint it forces need not be synced.
        strategy = "file_copy" if self._fast else "wal_log"
        self._execute(f"create database {_identifier(name)} template {_identifier(template)} strategy {strategy}")
        return urlsplit(self.url)._replace(path="/" + quote(name, safe="")).geturl()

    def drop_database(self, name: str) -> None:
        """Remove a database, even while clients are connected to it."""
        self._execute(f"drop database if exists {_identifier(name)} with (force)")

    def _our_binaries(self, verb: str) -> Binaries:
        if self._binaries is None:
            raise PostgresFailed(
                f"cannot {verb} the server that ONCUE_TEST_POSTGRES names: it is not ours. "
                "Without the variable there would be a private one."
            )
        return self._binaries

    def _our_cluster(self) -> Cluster:
        if self._cluster is None:
            raise PostgresFailed("the server has not been started")
        return self._cluster

    def _execute(self, statement: str) -> Any:
        return execute(self.url, statement)


def execute(url: str, statement: str) -> Any:
    """Run a statement on a connection of its own, and return its first value."""

    async def once() -> Any:
        connection = await asyncpg.connect(url, timeout=30)
        try:
            return await connection.fetchval(statement)
        finally:
            await connection.close()

    # In a separate thread: the caller may be inside an event loop, where asyncio.run refuses to work.
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(asyncio.run, once()).result()


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
