"""A private primary with a streaming replica, for tests that lose one of them: gone with the process that started it.

    with ReplicatedPostgres(synchronous=True) as servers:
        url = servers.create_database("mine")  # names both, the first one first
        servers.first.kill()
        servers.second.promote()

Both listen on loopback only and trust every local connection. Needs /proc.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from oncue.clock import SystemClock
from oncue.domain.instants import SECOND
from oncue.testing.postgres import FAST, execute
from oncue.testing.postgres_binaries import find_binaries
from oncue.testing.postgres_cluster import Cluster, PostgresFailed, StopMode

__all__ = ["ReplicatedPostgres", "Server"]

# A replica that was away finds what it missed; shared memory lies in the folder, which goes also after a SIGKILL.
REPLICATED: Mapping[str, object] = {
    "wal_keep_size": "256MB",
    "dynamic_shared_memory_type": "mmap",
    "max_connections": 200,
}
WITHIN = 60  # seconds, for whatever a healthy server does at once
LOOK_AGAIN = 0.02


class Server:
    """One of the two. Which role it has is up to what was done to it: `is_replica`."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.port = cluster.port
        self.name = cluster.name  # as a replica, at its primary
        self._silent: list[int] = []

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{quote(database, safe='')}"

    def ask(self, statement: str) -> Any:
        """Run a statement here and return its first value."""
        return execute(self.url(), statement)

    @property
    def is_replica(self) -> bool:
        return bool(self.ask("select pg_is_in_recovery()"))

    def start(self) -> None:
        """Start it as it was left: a primary that was killed or stopped is a primary again."""
        self.cluster.start()

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop it in order. A replica that streams has got everything by then."""
        self.cluster.stop(mode)

    def kill(self) -> None:
        """SIGKILL all its processes, as a host does that loses power and whose address refuses connections."""
        pids = self.silence()
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        self._silent.clear()
        _wait(lambda: not any(map(_alive, pids)), "its processes are gone")
        # What has the id next, or a zombie that nobody waits for, would be taken for the server.
        (self.cluster.data / "postmaster.pid").unlink()
        (self.cluster.folder / f".s.PGSQL.{self.port}.lock").unlink()

    def silence(self) -> list[int]:
        """SIGSTOP all its processes, as when the network or the host freezes: connections stay, nothing answers."""
        os.kill(self.cluster.pid, signal.SIGSTOP)  # first, because it starts the others
        self._silent = [self.cluster.pid, *_children(self.cluster.pid)]
        for pid in self._silent:
            os.kill(pid, signal.SIGSTOP)
        return list(self._silent)

    def wake(self) -> None:
        """End the silence, if there is one."""
        silent, self._silent = self._silent, []
        for pid in reversed(silent):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def promote(self) -> None:
        """Make the replica a primary, and return when it takes writes."""
        self.cluster.promote()

    def detach(self) -> None:
        """Let a replica receive nothing more, so that it falls behind."""
        self.cluster.configure(primary_conninfo="")
        self.cluster.reload()

    def follow(self, primary: Server) -> None:
        """Become a replica of the other one, with a new copy of its data; returns when it streams."""
        with suppress(PostgresFailed):
            self.stop("immediate")
        self.cluster.copy(primary.cluster)
        self.cluster.start()
        primary.wait_for(self)

    def wait_for(self, replica: Server, state: str | None = None) -> None:
        """Return when the replica streams and has everything; `state`: sync or async, as this server counts it."""
        wanted = f"and sync_state = '{state}'" if state else ""
        streams = (
            "select exists (select from pg_stat_replication where state = 'streaming' "
            f"and application_name = '{replica.name}' and replay_lsn >= pg_current_wal_lsn() {wanted})"
        )
        _wait(lambda: self.ask(streams), f"{replica.name} streams and has everything")

    def set_synchronous(self, replica: Server | None) -> None:
        """Acknowledge commits only when that replica has them on its disk, or do not wait for any."""
        self.cluster.configure(synchronous_standby_names=f"FIRST 1 ({replica.name})" if replica else "")
        self.cluster.reload()
        if replica is not None:
            self.wait_for(replica, "sync")


class ReplicatedPostgres:
    """`first` is the primary and `second` its replica until they are told otherwise."""

    def __init__(
        self, *, synchronous: bool = False, settings: Mapping[str, object] | None = None, source: str | None = None
    ) -> None:
        source = os.environ.get("ONCUE_TEST_POSTGRES", "") if source is None else source
        if "://" in source:
            raise PostgresFailed("the server that ONCUE_TEST_POSTGRES names is not ours, and has no replica to lose")
        self._binaries = find_binaries(source)
        self._settings = {**FAST, **REPLICATED, **(settings or {})}
        self._synchronous = synchronous
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            first = Cluster(self._binaries, self._settings, in_memory=True)
            stack.callback(first.remove)
            first.start()
            second = Cluster(first.binaries, {}, in_memory=True, source=first)
            stack.callback(second.remove)
            second.start()
            self.first, self.second = Server(first), Server(second)
            stack.callback(self._wake)
            self.first.wait_for(self.second)
            if self._synchronous:
                self.first.set_synchronous(self.second)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def folders(self) -> tuple[Path, ...]:
        """Return the folders of both, which exist until the end."""
        clusters = (self.first.cluster, self.second.cluster)
        return tuple(folder for one in clusters for folder in (one.data, one.folder))

    def url(self, database: str = "postgres") -> str:
        """Return the URL that names both hosts."""
        hosts = f"127.0.0.1:{self.first.port},127.0.0.1:{self.second.port}"
        return f"postgresql://postgres@{hosts}/{quote(database, safe='')}"

    def create_database(self, name: str) -> str:
        """Create a database on the first, and return the URL that names both once the second has it, too."""
        quoted = '"' + name.replace('"', '""') + '"'
        self.first.ask(f"create database {quoted} template template0 strategy wal_log")
        self.first.wait_for(self.second)
        return self.url(name)

    def switch(self) -> None:
        """Change to the second as planned: the first is stopped in order, and nothing is lost."""
        self.first.stop("fast")
        self.second.promote()

    def _wake(self) -> None:
        self.first.wake()
        self.second.wake()


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _alive(pid: int) -> bool:
    """Return whether it still holds something: a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _wait(condition: Callable[[], bool], what: str) -> None:
    clock = SystemClock()
    end = clock.monotonic() + WITHIN * SECOND
    while not condition():
        if clock.monotonic() > end:
            raise PostgresFailed(f"not within {WITHIN} s: {what}")
        threading.Event().wait(LOOK_AGAIN)
