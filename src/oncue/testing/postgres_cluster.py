"""A PostgreSQL data folder and the server on it, both removed when this process ends."""

from __future__ import annotations

import atexit
import os
import pwd
import random
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from oncue.domain.errors import OncueError
from oncue.testing.postgres_binaries import Binaries

StopMode = Literal["smart", "fast", "immediate"]

LONGEST_PLACE = 60  # a unix socket's path may have 103 bytes (macOS) or 107 (Linux); ours adds about 35 to its place
MEMORY = Path("/dev/shm")
MEMORY_NEEDED = 2 * 1024**3

# Below the ports that systems give to outgoing connections: no other process gets the port while the server restarts.
PORTS = range(20_000, 32_000)

# A shell that waits until this process ends. However it ends, the pipe closes; the shell then stops the server and
# removes all folders.
GUARD = """
read -r _
lock="$1/postmaster.pid"
if read -r pid <"$lock" && [ "$pid" -gt 1 ] && kill -s CONT "$pid" && kill -s QUIT "$pid"; then
  children="/proc/$pid/task/$pid/children"
  [ -r "$children" ] && kill -s CONT $(cat "$children")
  n=0
  while [ -e "$lock" ] && [ $n -lt 200 ]; do sleep 0.05; n=$((n + 1)); done
fi
rm -rf "$@"
"""


class PostgresFailed(OncueError):
    """The server did not do what it was told; the message ends with the server's output."""


class Cluster:
    """Created by the constructor, not yet started. `in_memory` keeps the data in shared memory if that has space.
    `source` is a running one whose data it copies, to go on from there as its replica.
    """

    def __init__(
        self,
        binaries: Binaries,
        settings: Mapping[str, object],
        *,
        in_memory: bool = False,
        source: Cluster | None = None,
    ) -> None:
        self._account = _account()
        self.folder = self._new_folder(_usual_place())
        self.data = self._new_folder(MEMORY) if in_memory and _memory_has_room() else self.folder / "data"
        self._log = self.folder / "log"
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", GUARD, "guard", self.data, self.folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C in the terminal must not reach the guard
            **self._account,
        )
        atexit.register(self.remove)
        try:
            self.binaries = binaries if self._can_run(binaries) else self._copied(binaries)
            self.port = _free_port()
            if source is None:
                self._initdb(settings)
            else:
                self.copy(source)
        except BaseException:
            self.remove()
            raise

    @property
    def name(self) -> str:
        """Return what it is called at its primary, while it is a replica."""
        return f"replica_{self.port}"

    @property
    def pid(self) -> int:
        """Return the process id of the running server."""
        return int((self.data / "postmaster.pid").read_text().split()[0])

    def start(self) -> None:
        self._pg_ctl("start", "-l", str(self._log))

    def stop(self, mode: StopMode) -> None:
        self._pg_ctl("stop", "-m", mode)

    def restart(self, mode: StopMode) -> None:
        self._pg_ctl("restart", "-m", mode, "-l", str(self._log))

    def configure(self, **settings: object) -> None:
        """Add these lines to postgresql.conf, where the last one counts. A running server follows after `reload`."""
        with (self.data / "postgresql.conf").open("a") as conf:
            conf.writelines(f"{name} = {_quoted(value)}\n" for name, value in settings.items())

    def reload(self) -> None:
        self._pg_ctl("reload")

    def promote(self) -> None:
        """Make a replica a primary, and wait until it takes writes."""
        self._pg_ctl("promote")

    def copy(self, source: Cluster) -> None:
        """Replace the data of this stopped server by those of a running one, whose replica it is after a start."""
        for path in self.data.iterdir() if self.data.is_dir() else ():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        to = f"host=127.0.0.1 port={source.port} user=postgres"
        self._run("pg_basebackup", "-D", str(self.data), "-X", "stream", "-c", "fast", "--no-sync", "-d", to)
        signal = self.data / "standby.signal"
        signal.touch()
        self._hand_over(signal)
        self.configure(primary_conninfo=f"{to} application_name={self.name}", synchronous_standby_names="")
        self.configure(**self._address)

    def remove(self) -> None:
        """Stop the server, if it runs, and remove its folders."""
        atexit.unregister(self.remove)
        self._guard.communicate(timeout=60)

    def _initdb(self, settings: Mapping[str, object]) -> None:
        self._run("initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
        self.configure(**settings, **self._address)

    @property
    def _address(self) -> Mapping[str, object]:
        return {"port": self.port, "listen_addresses": "127.0.0.1", "unix_socket_directories": self.folder}

    def _pg_ctl(self, verb: str, *options: str) -> None:
        try:
            self._run("pg_ctl", verb, "-w", "-t", "60", *options)
        except PostgresFailed as failed:
            tail = self._log.read_text(errors="replace").splitlines()[-20:] if self._log.exists() else ["(empty)"]
            raise PostgresFailed("\n".join([str(failed), "The end of the server's log:", *tail])) from None

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self.binaries.folder / program, *arguments],
            env=_environment() | {"PGDATA": str(self.data)},
            cwd=self.folder,  # the account may have no access to ours
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            **self._account,
        )
        if done.returncode:
            said = (done.stdout + done.stderr).strip()
            raise PostgresFailed(f"{program} of PostgreSQL {self.binaries.version} failed: {said}")

    def _can_run(self, binaries: Binaries) -> bool:
        command = [str(binaries.folder / "initdb"), "--version"]
        try:
            subprocess.run(command, cwd=self.folder, capture_output=True, timeout=30, check=True, **self._account)
        except (OSError, subprocess.SubprocessError):
            return False
        return True

    def _copied(self, binaries: Binaries) -> Binaries:
        place = self.folder / "programs"
        copy = binaries.copied_to(place)
        for path in (place, *place.rglob("*")):
            self._hand_over(path)
        return copy

    def _new_folder(self, place: Path) -> Path:
        folder = Path(tempfile.mkdtemp(prefix="oncue-pg-", dir=place))
        self._hand_over(folder)
        return folder

    def _hand_over(self, path: Path) -> None:
        if self._account:
            os.chown(path, self._account["user"], self._account["group"], follow_symlinks=False)


def _account() -> dict[str, Any]:
    """Return the server's account, as arguments for `subprocess`: ours, but never root, which PostgreSQL refuses."""
    if os.geteuid() != 0:
        return {}
    for name in ("nobody", "postgres", "daemon"):  # initdb insists on an account with a name
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    raise PostgresFailed("PostgreSQL does not run as root, and this system has no user nobody, postgres or daemon")


def _usual_place() -> Path:
    """Return the temporary folder, unless its path is too long for a socket or, if we are root, closed to others."""
    usual = Path(tempfile.gettempdir())
    is_short = len(os.fsencode(usual)) <= LONGEST_PLACE
    is_open = os.geteuid() != 0 or all(path.stat().st_mode & 0o001 for path in (usual, *usual.parents))
    return usual if is_short and is_open else Path("/tmp")


def _memory_has_room() -> bool:
    return MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= MEMORY_NEEDED


def _free_port() -> int:
    while True:
        port = random.choice(PORTS)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def _environment() -> dict[str, str]:
    """Return our environment without what controls PostgreSQL or its language."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_"))} | {"LC_ALL": "C"}


def _quoted(value: object) -> str:
    """Quote a value for postgresql.conf."""
    text = {True: "on", False: "off"}.get(value, str(value)) if isinstance(value, bool) else str(value)
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
