"""Two servers on one store, as real processes that can be killed: two APIs on PostgreSQL; `up` and an API on a file."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from bench.linearizable.clients import Door
from bench.linearizable.faults import FAULTS, FORGOTTEN_COMMITS

from oncue.testing.postgres import PrivatePostgres
from oncue_bench.processes import Process, Processes

READY_WITHIN = 60.0  # seconds
AWAY = 0.5  # seconds that PostgreSQL is away, beyond what its start takes
NOT_KEPT = {"synchronous_commit": "off", "wal_writer_delay": "10s"}
REPOSITORY = Path(__file__).parents[2]
TASK = {"name": "mark", "schema": {"type": "object"}}
PLANTING = "from bench.linearizable.faults import plant\nplant({fault!r})\n"


class Servers:
    """`kills` names what can be killed, by turns: a server by its number, or the server of PostgreSQL."""

    def __init__(
        self, processes: Processes, folder: Path, roles: tuple[str, str], store: PrivatePostgres | None
    ) -> None:
        self._processes = processes
        self._folder = folder
        self._store = store
        self._roles = roles
        self.kills = ("server 0", "server 1") if store is None else ("server 0", "store", "server 1", "store")
        self._ports = [_free_port() for _ in roles]
        self._running = [self._start(number) for number in range(len(roles))]
        self.wait()

    def _start(self, number: int) -> Process:
        return self._processes.start(self._roles[number], "--port", str(self._ports[number]))

    def door(self, number: int) -> Door:
        return Door(self._ports[number], (self._folder / "admin.key").read_text().strip())

    def kill(self, what: str) -> None:
        """Kill it without warning, and start it again at once."""
        if what == "store":
            assert self._store is not None
            self._store.stop("immediate")
            time.sleep(AWAY)
            self._store.start()
            return
        number = int(what.removeprefix("server "))
        old = self._running[number]
        os.kill(old.pid, signal.SIGKILL)
        self._processes.stop(old)
        self._running[number] = self._start(number)

    def wait(self) -> None:
        """Until both take writes, and the task is known."""
        for port in self._ports:
            until = time.monotonic() + READY_WITHIN
            while not _is_ready(port):
                self._processes.check()
                if time.monotonic() > until:
                    raise self._processes.failure(f"no server is ready at port {port}")
                time.sleep(0.05)
        with closing(self.door(0)) as door:
            while door.ask("PUT", "/v1/tasks", {"tasks": [TASK]}, {})[0] != 200:
                time.sleep(0.05)


@contextmanager
def serving(engine: str, folder: Path, fault: str | None = None) -> Iterator[Servers]:
    """`fault` is planted in both."""
    with ExitStack() as ends:
        settings = NOT_KEPT if fault == FORGOTTEN_COMMITS else {}
        store = ends.enter_context(PrivatePostgres(settings=settings, fast=True)) if engine == "postgres" else None
        url = f"sqlite:///{folder / 'oncue.db'}" if store is None else store.create_database("oncue")
        source = None
        if fault in FAULTS:
            (folder / "sitecustomize.py").write_text(PLANTING.format(fault=fault))
            source = f"{folder}{os.pathsep}{REPOSITORY}"
        processes = ends.enter_context(Processes(url, folder, source))
        yield Servers(processes, folder, ("up", "api") if store is None else ("api", "api"), store)


def _is_ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
